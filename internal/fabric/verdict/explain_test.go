package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// allReasons returns all reasons.
func allReasons() []Reason {
	return []Reason{
		ReasonNone, ReasonStarting, ReasonNoResponder, ReasonKey, ReasonNotListed, ReasonFull, ReasonVersion, ReasonNoCommonGID,
		ReasonPKey, ReasonUnsupported, ReasonNotActive, ReasonOwnPort, ReasonFailed,
	}
}

func TestEachReasonHasAnExplanationOfItsOwn(t *testing.T) {
	seen := map[string]Reason{}
	for _, r := range allReasons() {
		text := r.Text()
		require.NotEqual(t, string(r), text)
		require.NotContains(t, seen, text, "%s and %s", r, seen[text])
		seen[text] = r
		if fix := r.Fix(); fix != "" {
			require.NotContains(t, seen, fix, "%s and %s", r, seen[fix])
			seen[fix] = r
		}
	}
}

func TestAReasonOfALaterVersionIsItsOwnExplanation(t *testing.T) {
	require.Equal(t, "eclipse", Reason("eclipse").Text())
	require.Empty(t, Reason("eclipse").Fix())
}
