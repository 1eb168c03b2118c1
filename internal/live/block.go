package live

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// block is the last lines of a terminal, which are redrawn in place.
type block struct {
	width func() int
	lines []string
	drawn int // how many lines of it are on the terminal
}

// clear erases the block from the terminal, if changes is true.
func (k *block) clear(b *bytes.Buffer, changes bool) {
	if changes && k.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", k.drawn) // up, and erase below (console_codes(4))
		k.drawn = 0
	}
}

// draw writes the block below the other lines, if it is not on the terminal. It cuts long
// lines, because a line that the terminal breaks would count as two.
func (k *block) draw(b *bytes.Buffer) {
	if k.drawn > 0 {
		return
	}
	for _, line := range k.lines {
		if k.width != nil {
			line = cut(line, k.width())
		}
		b.WriteString(line + "\n")
	}
	k.drawn = len(k.lines)
}

// cut shortens a line to a number of columns. Colours take no columns.
func cut(line string, columns int) string {
	seen := 0
	for i := 0; i < len(line); {
		if strings.HasPrefix(line[i:], "\x1b[") {
			i += strings.IndexByte(line[i:], 'm') + 1
			continue
		}
		if seen++; seen > columns {
			return line[:i] + "\x1b[0m"
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
	}
	return line
}
