package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/status"
)

const hidden = "/dev/infiniband/uverbs0 is not among the nodes that this container was given"

func TestMissingNodeIsAReasonOfItsOwn(t *testing.T) {
	h := start(t, nil)
	f := found("mlx5_0", 0)
	f.NodeMissing = true
	h.finds(f)
	sup := h.sup("mlx5_0", 0)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonUnsupported})
	require.Equal(t, status.ReasonNodeMissing, deviceView(h.gather(), "mlx5_0").Reason)
	h.finds(found("mlx5_0", 0))
	require.EqualValues(t, 1, sup.wakes.Load(), "it is opened at once")
	h.opens(sup, "mlx5_0")
	require.Equal(t, status.ReasonOK, deviceView(h.gather(), "mlx5_0").Reason)
	h.finds(f)
	v := deviceView(h.gather(), "mlx5_0")
	require.Equal(t, status.ReasonNodeMissing, v.Reason, "other programs cannot open it")
	require.True(t, v.Open)
	h.finds()
	require.Equal(t, status.ReasonRemoved, deviceView(h.gather(), "mlx5_0").Reason)
}

func TestDeviceWhoseNodeAContainerWasNotGivenIsUnwatchable(t *testing.T) {
	h := start(t, nil)
	f := found("mlx5_0", 0)
	f.Unwatchable = hidden
	h.finds(f)
	s := h.gather()
	requireClosedWithoutAlert(t, s, "mlx5_0", status.ReasonUnwatchable, true)
	f.Added = 1
	h.finds(f)
	require.Empty(t, h.sups, "nobody tries to open it")
	h.finds(found("mlx5_0", 0))
	h.opens(h.sup("mlx5_0", 0), "mlx5_0")
	require.Equal(t, status.ReasonOK, deviceView(h.gather(), "mlx5_0").Reason)
}

func TestExpectedDeviceWhoseNodeAContainerWasNotGivenIsTried(t *testing.T) {
	h := start(t, func(c *Config) { c.Expect = []string{"mlx5_0"} })
	f := found("mlx5_0", 0)
	f.Unwatchable = hidden
	h.finds(f)
	sup := h.sup("mlx5_0", 0)
	sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonUnsupported})
	require.Equal(t, status.ReasonUnsupported, deviceView(h.gather(), "mlx5_0").Reason)
}
