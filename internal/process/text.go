package process

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanText makes a text that a child process has sent fit for a log line, a field and JSON: it replaces control characters and
// invalid bytes, and cuts what is longer than so many bytes.
func CleanText(s string, longest int, control rune) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return control
		}
		return r
	}, s)
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return s[:longest]
}
