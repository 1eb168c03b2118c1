package ethtool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
)

// TestEvidenceKnowsTheWords checks that package cause, which does not import this package, uses the
// same names.
func TestEvidenceKnowsTheWords(t *testing.T) {
	want := []cause.Cause{
		cause.Autoneg, cause.Training, cause.NoCarrier, cause.BadSignal, cause.NoCable, cause.CableIssue,
		cause.NoCarrier, cause.NoCarrier, cause.PowerBudget, cause.Overheat, cause.Module,
	}
	require.Len(t, want, len(extStates))
	for n := range extStates {
		at := cause.MomentAfter(0)
		require.Equal(t, want[n], cause.Of(cause.Facts{
			LinkLayer: verbs.LinkEthernet, Before: verbs.PortActive, After: verbs.PortDown,
			NetDev:   cause.NetDev{Moment: at, AdminUp: cause.Yes, Carrier: cause.No},
			ExtState: cause.ExtState{Moment: at, Name: extState(uint8(n))},
		}), extState(uint8(n)))
	}
}
