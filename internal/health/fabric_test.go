package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
)

func TestALinkIsBlamedAfterAMinuteAndUntilItIsWell(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	look := func(at time.Time, bad bool, age time.Duration) []Problem {
		p := &measure.FabricPort{Device: "mlx5_0", Port: 1, Bad: bad, VerdictAgeNS: int64(age), At: at}
		p.ForwardLost, p.ReverseLost = 70, 5
		return k.Observe(append(h.points(at), p), at).Problems
	}
	require.Empty(t, look(noon, true, 30*time.Second))
	require.Equal(t, []Problem{{
		ID: "fabric-own-link", Severity: Critical, Device: "mlx5_0", Port: 1, Since: noon.Add(-30 * time.Second),
		Text: "the port does not reach its peers: 70 probes lost on the way there and 5 on the way back, in all",
	}}, look(noon.Add(time.Minute), true, 90*time.Second))
	require.Empty(t, look(noon.Add(2*time.Minute), false, 10*time.Second))
}
