package monitor

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func TestPortIsEmittedWhenItsBondLosesALeg(t *testing.T) {
	var up atomic.Int64
	up.Store(2)
	h, sup, _ := startWithOpenDevice(t, func(c *Config) {
		c.Legs = func(netdev string) (legs, now int, ok bool) {
			if netdev != "bond0" {
				return 0, 0, false
			}
			return 2, int(up.Load()), true
		}
	})
	bonded := func(mono int64, state verbs.PortState, netdev string) verbs.Item {
		it := readingItem(1, mono, state)
		it.Reading.Attr.NetDev = netdev
		return it
	}
	h.batch(sup, bonded(10*ms, verbs.PortActive, "bond0"))
	require.True(t, pointsOf[measure.Port](h.sink.takePoints())[0].HasLegs)
	h.LegsChanged()
	require.Empty(t, h.sink.takePoints(), "nothing has changed")

	up.Store(1)
	h.LegsChanged()
	points := pointsOf[measure.Port](h.sink.takePoints())
	require.Len(t, points, 1, "port 2 has no bond")
	require.Equal(t, []int{2, 1}, []int{points[0].Legs, points[0].LegsUp})
	require.Equal(t, 1, findPort(h.gather(), "mlx5_0", 1).LegsUp)
	require.False(t, findPort(h.gather(), "mlx5_0", 2).HasLegs)

	up.Store(0)
	h.batch(sup, bonded(20*ms, verbs.PortActive, ""))
	v := findPort(h.gather(), "mlx5_0", 1)
	require.True(t, v.HasLegs, "a port that is down may have no GID that names its network device")
	require.Zero(t, v.LegsUp)
}

func TestAPortWhoseDriverIgnoresTheLinkIsNeitherUpNorDown(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, nil)
	efa := openedItem("mlx5_0", 1)
	efa.Opened.AlwaysActive = true
	h.batch(sup, efa, readingItem(1, 10*ms, verbs.PortActive))
	for _, p := range append(pointsOf[measure.Port](h.sink.takePoints()), findPort(h.gather(), "mlx5_0", 1)) {
		_, known := p.Up()
		require.False(t, known)
	}
	require.Zero(t, h.gather().Hosts[0].PortsDown)
}
