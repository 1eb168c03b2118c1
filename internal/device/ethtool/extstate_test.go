package ethtool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
)

// TestEvidenceKnowsTheWords keeps the words of this package and the causes of package cause,
// which does not import it, together.
func TestEvidenceKnowsTheWords(t *testing.T) {
	want := []cause.Cause{
		cause.Autoneg, cause.Training, cause.NoCarrier, cause.BadSignal, cause.NoCable, cause.CableIssue,
		cause.NoCarrier, cause.NoCarrier, cause.PowerBudget, cause.Overheat, cause.Module,
	}
	require.Len(t, want, len(extStates))
	for n := range extStates {
		at := cause.Seen(0)
		require.Equal(t, want[n], cause.Of(cause.Facts{
			LinkLayer: verbs.LinkEthernet, Before: verbs.PortActive, After: verbs.PortDown,
			NetDev:   cause.NetDev{At: at, AdminUp: cause.Yes, Carrier: cause.No},
			ExtState: cause.ExtState{At: at, Name: extState(uint8(n))},
		}), extState(uint8(n)))
	}
}
