// Package sanitize makes strings of other programs fit for where they go.
package sanitize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// UTF8 returns a string that protobuf accepts. Firmware and sysfs may contain any bytes, and one invalid byte would end a stream.
func UTF8(s string) string { return strings.ToValidUTF8(s, "?") }

// Text makes a text that a child process has sent fit for a log line, a field and JSON: it replaces control characters and
// invalid bytes, and cuts what is longer than so many bytes.
func Text(s string, longest int, control rune) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return control
		}
		return r
	}, s)
	return cut(s, longest)
}

// Field makes a string fit for a tag or a field of line protocol with at most so many bytes: ASCII control characters become blanks.
func Field(s string, longest int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, UTF8(s))
	return cut(s, longest)
}

// Printable returns a string that a terminal and a log show as it is: each other character becomes a question mark.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// cut returns the beginning of a valid string, without a character that longest would divide.
func cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return s[:longest]
}
