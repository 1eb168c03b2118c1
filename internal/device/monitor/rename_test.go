package monitor

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestARenameEndsTheOldSeriesAndStartsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("rocep1s0", 3))
		old := h.sup("rocep1s0", 0)
		led := h.openDevice(old, "rocep1s0")
		old.last = func() {
			h.batch(old, openedItem("rocep1s0", 2)) // the worker was just opening it again
			old.Ended(status.End{Reason: status.ReasonOK})
		}
		led.Count(int32(verbs.EventPortErr), 1, 1, 1)
		h.sink.takePoints()

		h.reportFound(foundDevice("mlx5_3", 3))
		synctest.Wait()
		items := h.sink.takePoints()
		v := pointsOf[measure.Device](items)
		require.Equal(t, "rocep1s0", v[0].Device)
		require.False(t, v[0].Present)
		require.Equal(t, status.ReasonRenamed, v[0].Reason)
		require.Zero(t, v[0].Removals)
		require.EqualValues(t, 1, pointsOf[measure.Event](items)[0].Count, "the old worker's last events")
		s := h.gather()
		require.False(t, findDevice(s, "rocep1s0").Present)
		require.EqualValues(t, 1, findDevice(s, "rocep1s0").Opens)
		require.True(t, findDevice(s, "mlx5_3").Present)
		require.EqualValues(t, 1, findAsync(s, "rocep1s0", 1).Read)
		s = h.gather()
		require.Len(t, s.Devices, 1)
		require.EqualValues(t, 1, s.Collector.AsyncEvents)

		h.reportFound(foundDevice("rocep1s0", 3))
		s = h.gather()
		require.EqualValues(t, 1, findCount(findAsync(s, "rocep1s0", 1), verbs.EventPortErr).Total, "a series owns its counters")
		require.Equal(t, status.ReasonRenamed, findDevice(s, "mlx5_3").Reason)
		h.sup("rocep1s0", 1)
	})
}

func TestARenameBackWhileTheOldSupervisorEndsStartsANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("a", 3))
		old, hold := h.sup("a", 0), make(chan struct{})
		old.last = func() { <-hold }
		old.Status(status.Status{State: status.StateRunning, Restarts: 3})
		h.reportFound(foundDevice("b", 3))
		for range 3 {
			require.Len(t, h.gather().Devices, 2, "the old worker may still send its final message")
		}
		h.reportFound(foundDevice("a", 3))
		require.Len(t, h.sups, 2)
		close(hold)
		synctest.Wait()
		require.Zero(t, h.sup("a", 1).wakes.Load())
		require.EqualValues(t, 3, h.gather().Collector.WorkerRestarts)
		h.sup("a", 1).Status(status.Status{State: status.StateRunning, Restarts: 1})
		require.EqualValues(t, 4, findDevice(h.gather(), "a").Worker.Restarts)
		require.True(t, findDevice(h.gather(), "a").Present)
	})
}

func TestADeviceKnownByItsGUIDAloneIsRenamed(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("a", 3))
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "a").Reason)
	b := foundDevice("b", 8)
	b.NodeGUID = foundDevice("a", 3).NodeGUID
	h.reportFound(b)
	v := pointsOf[measure.Device](h.sink.takePoints())
	require.Equal(t, status.ReasonRenamed, v[2].Reason)
	require.EqualValues(t, 1, v[2].Removals)
}

func TestDevicesWithoutAGUIDAreNotTakenForOneAnother(t *testing.T) {
	h := startMonitor(t, nil)
	a, b := foundDevice("a", 3), foundDevice("b", 4)
	a.NodeGUID, b.NodeGUID = "0000:0000:0000:0000", "0000:0000:0000:0000"
	h.reportFound(a)
	h.reportFound(b)
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "a").Reason)
}

func TestADeviceThatLeavesItsTwinIsNotRenamed(t *testing.T) {
	h := startMonitor(t, nil)
	a, b := foundDevice("a", 3), foundDevice("b", 4)
	b.NodeGUID = a.NodeGUID
	h.reportFound(a, b)
	h.reportFound(b)
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "a").Reason)
}
