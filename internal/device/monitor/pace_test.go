package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// The pace of a worker's snapshots can hold one up for most of a minute, after which its parts come one by one.
func TestASnapshotThatThePaceHeldUpHasItsTimeToo(t *testing.T) {
	for _, whole := range []bool{true, false} {
		h, sup, _ := one(t, func(c *Config) { c.Evidence = true })
		h.mono.Store(51 * sec)
		part := verbs.Snapshot{Port: 1, Trigger: verbs.TriggerLostEvent, At: sec, Mono: 51 * sec}
		h.batch(sup, verbs.Item{Snapshot: &part})
		require.Empty(t, of[measure.Evidence](h.sink.take()), "its other parts are under way")
		if whole {
			part.Done = true
			h.batch(sup, verbs.Item{Snapshot: &part})
		} else {
			h.mono.Add(evidenceLimit - 1)
			h.batch(sup)
			require.Empty(t, of[measure.Evidence](h.sink.take()))
			h.mono.Add(1)
			h.batch(sup)
		}
		came := of[measure.Evidence](h.sink.take())
		require.Len(t, came, 1)
		require.EqualValues(t, 50*sec, came[0].AgeNS)
		left := "the rest: not answered within 6s"
		if whole {
			left = ""
		}
		require.Equal(t, left, came[0].LeftOut)
	}
}
