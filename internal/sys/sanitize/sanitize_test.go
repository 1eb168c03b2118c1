package sanitize

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextReplacesControlsAndCutsWholeCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"a\nb\x00c":    "a?b?c",
		"\u0085x\x7f":  "?x?",
		"12345678":     "12345678",
		"123456789":    "12345678",
		"1234567ä":     "1234567",
		"123456ä":      "123456ä",
		"a\xffb":       "a\ufffdb",
		"1234567\xff8": "1234567",
	} {
		require.Equal(t, want, Text(in, 8, '?'), "%q", in)
	}
	require.Equal(t, "a b", Text("a\tb", 8, ' '))
}

func TestFieldReplacesControlsAndCutsWholeCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\tc":     "a b c",
		"\x7f\u0085x": " \u0085x",
		"a\xff\xfeb":  "a?b",
		"1234567ä":    "1234567",
	} {
		require.Equal(t, want, Field(in, 8), "%q", in)
	}
}

func TestPrintableReplacesWhatATerminalObeys(t *testing.T) {
	require.Equal(t, "?[31mä?b", Printable("\x1b[31mä\u00a0b"))
}
