package live

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// block is the last lines of a terminal, which are redrawn in place.
type block struct {
	width, height func() int
	lines         []string
	drawn         int // how many lines of it are on the terminal
}

// clear erases the block from the terminal, if changes is true.
func (k *block) clear(b *bytes.Buffer, changes bool) {
	if changes && k.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", k.drawn) // up, and erase below (console_codes(4))
		k.drawn = 0
	}
}

// draw writes the block below the other lines, if it is not on the terminal. It cuts long
// lines, because a line that the terminal breaks would count as two. Lines for which the terminal has no room are left
// out and counted, because those that have left it cannot be erased.
func (k *block) draw(b *bytes.Buffer) {
	if k.drawn > 0 {
		return
	}
	lines := k.lines
	if room := k.room(); len(lines) > room {
		lines = append(lines[:room-1:room-1], fmt.Sprintf("... %d more lines", len(lines)-room+1))
	}
	for _, line := range lines {
		if k.width != nil {
			line = cut(line, k.width())
		}
		b.WriteString(line + "\n")
	}
	k.drawn = len(lines)
}

// room returns how many lines the terminal has for the block, above that of the cursor.
func (k *block) room() int {
	if k.height == nil {
		return len(k.lines)
	}
	return max(1, k.height()-1)
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
