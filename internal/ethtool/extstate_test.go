package ethtool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/evidence"
	"rdma_events/internal/verbs"
)

// TestEvidenceKnowsTheWords keeps the words of this package and the causes of package evidence,
// which does not import it, together.
func TestEvidenceKnowsTheWords(t *testing.T) {
	want := []evidence.Cause{
		evidence.Autoneg, evidence.Training, evidence.NoCarrier, evidence.BadSignal, evidence.NoCable, evidence.CableIssue,
		evidence.NoCarrier, evidence.NoCarrier, evidence.PowerBudget, evidence.Overheat, evidence.Module,
	}
	require.Len(t, want, len(extStates))
	for n := range extStates {
		at := evidence.Seen(0)
		require.Equal(t, want[n], evidence.CauseOf(evidence.Facts{
			LinkLayer: verbs.LinkEthernet, Before: verbs.PortActive, After: verbs.PortDown,
			NetDev:   evidence.NetDev{At: at, AdminUp: evidence.Yes, Carrier: evidence.No},
			ExtState: evidence.ExtState{At: at, Name: extState(uint8(n))},
		}), extState(uint8(n)))
	}
}
