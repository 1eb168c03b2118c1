package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

var (
	wide   = verbs.PCILink{SpeedGTs: 32, Width: 16, BestSpeedGTs: 32, BestWidth: 16}
	narrow = verbs.PCILink{SpeedGTs: 32, Width: 8, BestSpeedGTs: 32, BestWidth: 16}
)

func TestPCILinkIsReadAtOpeningAndSeldomAfterwards(t *testing.T) {
	now, reads := narrow, 0
	h := startMonitor(t, func(c *Config) {
		c.PCILink = func(address string) verbs.PCILink {
			require.Equal(t, "0000:19:00.0", address)
			reads++
			return now
		}
	})
	h.reportFound(deviceOn("0000:19:00.0", "mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	emitted := pointsOf[measure.Device](h.sink.takePoints())
	require.Equal(t, narrow, emitted[len(emitted)-1].Link)
	now = wide
	h.mono.Add(sec)
	require.Equal(t, wide, findDevice(h.gather(), "mlx5_0").Link, "a degraded link is read each time")
	require.Equal(t, 2, reads)
	h.runUntil(sup, h.mono.Load()+int64(pciLinkInterval)-sec)
	h.gather()
	require.Equal(t, 2, reads)
	now = narrow
	h.mono.Add(sec)
	require.Equal(t, narrow, findDevice(h.gather(), "mlx5_0").Link)

	h.reportFound()
	require.Zero(t, findDevice(h.gather(), "mlx5_0").Link)
	now = wide
	h.reopenDevice(sup, deviceOn("0000:19:00.0", "mlx5_0", 1))
	require.Equal(t, wide, findDevice(h.gather(), "mlx5_0").Link)
	require.Equal(t, 4, reads)
}

func TestPCILinkIsNotReadOfFunctionsAndReleasedDevices(t *testing.T) {
	h, releases := startReleasing(t, func(c *Config) {
		c.PCILink = func(string) verbs.PCILink {
			require.FailNow(t, "its link is read")
			return wide
		}
		c.VirtualFunctions = verbs.VirtualAll
	})
	virtual := deviceOn(vf, "mlx5_0", 0)
	virtual.VirtualFunction = true
	releases.set("mlx5_1", true)
	h.reportFound(virtual, deviceOn("0000:19:00.0", "mlx5_1", 1), foundDevice("rxe0", 2))
	h.gather()
}
