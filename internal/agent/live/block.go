package live

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// terminalBlock is a block of lines at the bottom of a terminal, which is redrawn in place.
type terminalBlock struct {
	width, height func() int
	lines         []string
	drawn         int // number of its lines that are on the terminal
}

// erase erases the block from the terminal if changes is true.
func (k *terminalBlock) erase(b *bytes.Buffer, changes bool) {
	if changes && k.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", k.drawn) // up, and erase below (console_codes(4))
		k.drawn = 0
	}
}

// draw writes the block below the other lines, unless it is on the terminal already. It truncates long lines, because a
// line that the terminal wraps would count as two. It omits and counts lines for which the terminal has no room,
// because lines that have scrolled off cannot be erased.
func (k *terminalBlock) draw(b *bytes.Buffer) {
	if k.drawn > 0 {
		return
	}
	lines := k.lines
	if room := k.maxLines(); len(lines) > room {
		lines = append(lines[:room-1:room-1], fmt.Sprintf("... %d more lines", len(lines)-room+1))
	}
	for _, line := range lines {
		if k.width != nil {
			line = truncateLine(line, k.width())
		}
		b.WriteString(line + "\n")
	}
	k.drawn = len(lines)
}

// maxLines returns the number of lines that fit above the line of the cursor.
func (k *terminalBlock) maxLines() int {
	if k.height == nil {
		return len(k.lines)
	}
	return max(1, k.height()-1)
}

// truncateLine truncates a line to a number of columns. Escape sequences of colours take no columns.
func truncateLine(line string, columns int) string {
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
