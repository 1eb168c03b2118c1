// Package sanitize makes strings from other programs safe for logs, terminals, line protocol and protobuf.
package sanitize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// UTF8 returns s with invalid bytes replaced, as protobuf requires. Firmware and sysfs may contain any bytes, and a single
// invalid byte would end a gRPC stream.
func UTF8(s string) string { return strings.ToValidUTF8(s, "?") }

// Text makes a text from a child process safe for a log line, a field and JSON. It replaces control characters by control,
// replaces invalid bytes, and truncates the text to maxBytes.
func Text(s string, maxBytes int, control rune) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return control
		}
		return r
	}, s)
	return truncate(s, maxBytes)
}

// Field makes a string safe for a tag or field of line protocol. It replaces ASCII control characters by blanks, and
// truncates the string to maxBytes.
func Field(s string, maxBytes int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, UTF8(s))
	return truncate(s, maxBytes)
}

// Printable returns s with each unprintable character replaced by a question mark, so that it cannot control a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// truncate returns at most the first maxBytes of a valid string. It does not split a character.
func truncate(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	for maxBytes > 0 && !utf8.RuneStart(s[maxBytes]) {
		maxBytes--
	}
	return s[:maxBytes]
}
