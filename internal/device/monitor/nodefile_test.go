package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/status"
)

const hidden = "/dev/infiniband/uverbs0 is not among the nodes that this container was given"

func TestMissingNodeIsAReasonOfItsOwn(t *testing.T) {
	h := startMonitor(t, nil)
	f := foundDevice("mlx5_0", 0)
	f.NodeMissing = true
	h.reportFound(f)
	sup := h.sup("mlx5_0", 0)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonUnsupported})
	require.Equal(t, status.ReasonNodeMissing, findDevice(h.gather(), "mlx5_0").Reason)
	h.reportFound(foundDevice("mlx5_0", 0))
	require.EqualValues(t, 1, sup.wakes.Load(), "it is opened at once")
	h.openDevice(sup, "mlx5_0")
	require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
	h.reportFound(f)
	v := findDevice(h.gather(), "mlx5_0")
	require.Equal(t, status.ReasonNodeMissing, v.Reason, "other programs cannot open it")
	require.True(t, v.Open)
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "mlx5_0").Reason)
}

func TestDeviceWhoseNodeAContainerWasNotGivenIsUnwatchable(t *testing.T) {
	h := startMonitor(t, nil)
	f := foundDevice("mlx5_0", 0)
	f.Unwatchable = hidden
	h.reportFound(f)
	s := h.gather()
	requireClosedWithoutAlert(t, s, "mlx5_0", status.ReasonUnwatchable, true)
	f.Added = 1
	h.reportFound(f)
	require.Empty(t, h.sups, "nobody tries to open it")
	h.reportFound(foundDevice("mlx5_0", 0))
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
}

func TestExpectedDeviceWhoseNodeAContainerWasNotGivenIsTried(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.Expect = []string{"mlx5_0"} })
	f := foundDevice("mlx5_0", 0)
	f.Unwatchable = hidden
	h.reportFound(f)
	sup := h.sup("mlx5_0", 0)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonUnsupported})
	require.Equal(t, status.ReasonUnsupported, findDevice(h.gather(), "mlx5_0").Reason)
}
