package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// A worker that limits its snapshots can delay one for most of a minute; its parts then arrive one by one.
func TestASnapshotThatThePaceHeldUpHasItsTimeToo(t *testing.T) {
	for _, whole := range []bool{true, false} {
		h, sup, _ := startWithOpenDevice(t, func(c *Config) { c.Evidence = true })
		h.mono.Store(51 * sec)
		part := verbs.Snapshot{Port: 1, Trigger: verbs.TriggerLostEvent, At: sec, Mono: 51 * sec}
		h.batch(sup, verbs.Item{Snapshot: &part})
		require.Empty(t, pointsOf[measure.Evidence](h.sink.takePoints()), "its other parts are under way")
		if whole {
			part.Done = true
			h.batch(sup, verbs.Item{Snapshot: &part})
		} else {
			h.mono.Add(snapshotLimit - 1)
			h.batch(sup)
			require.Empty(t, pointsOf[measure.Evidence](h.sink.takePoints()))
			h.mono.Add(1)
			h.batch(sup)
		}
		came := pointsOf[measure.Evidence](h.sink.takePoints())
		require.Len(t, came, 1)
		require.EqualValues(t, 50*sec, came[0].AgeNS)
		left := "the rest: not answered within 6s"
		if whole {
			left = ""
		}
		require.Equal(t, left, came[0].LeftOut)
	}
}
