package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// stormy is a device whose events come as fast as they are read.
type stormy struct{ verbs.Device }

func (stormy) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{Name: "mlx5_0", Ports: 1} }

func (stormy) Commands() verbs.CommandSet { return 0 }

func (stormy) ReadEvents(runs []verbs.Run, _ time.Duration) (int, error) {
	time.Sleep(time.Millisecond)
	runs[0] = verbs.Run{Type: verbs.EventGIDChange, Port: 1, Count: 1}
	return 1, nil
}

// Otherwise the ports never get a baseline, and their states stay unknown.
func TestAStormAtTheOpeningDoesNotHoldUpTheBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(stormy{}, newLedger(t), verbs.Options{Device: "mlx5_0"})
		began := time.Now()
		require.NoError(t, s.drainEvents(make([]verbs.Run, 8)))
		require.LessOrEqual(t, time.Since(began), 2*baselineTimeout)
	})
}
