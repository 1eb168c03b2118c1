package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCleanTextReplacesControlsAndCutsWholeCharacters(t *testing.T) {
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
		require.Equal(t, want, CleanText(in, 8, '?'), "%q", in)
	}
	require.Equal(t, "a b", CleanText("a\tb", 8, ' '))
}
