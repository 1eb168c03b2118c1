package monitor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func requireRemovals(t *testing.T, h *harness, device string, all, unplanned uint64) {
	t.Helper()
	v := findDevice(h.gather(), device)
	require.Equal(t, []uint64{all, unplanned}, []uint64{v.Removals, v.UnplannedRemovals}, "removals, unplanned_removals")
}

func TestRemovalWithoutAKnownReasonIsUnplanned(t *testing.T) {
	h, _, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
	for n := uint64(1); n <= 3; n++ { // no device_fatal
		sup.Ended(status.End{Reason: status.ReasonRemoved})
		h.reportFound()
		requireRemovals(t, h, "mlx5_0", n, n-1)
		h.mono.Add(5 * sec)
		h.reopenDevice(sup, deviceOn(vf, "mlx5_0", int(n)))
		requireRemovals(t, h, "mlx5_0", n, n)
		h.runUntil(sup, h.mono.Load()+5*sec)
	}
	h.reportFound()
	h.mono.Add(int64(fatalLimit) - sec)
	requireRemovals(t, h, "mlx5_0", 4, 3)
	h.mono.Add(sec)
	requireRemovals(t, h, "mlx5_0", 4, 4)
	h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 9))
	requireRemovals(t, h, "mlx5_0", 4, 4)
}

func TestPlannedRemovalIsNotUnplanned(t *testing.T) {
	t.Run("function removed", func(t *testing.T) {
		h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
		h.removeDevice(sup)
		pci.set(vf, verbs.PCIFunction{Absent: true})
		h.mono.Add(int64(time.Minute))
		requireRemovals(t, h, "mlx5_0", 1, 0)
		pci.set(vf, boundFunction(8))
		h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 1))
		requireRemovals(t, h, "mlx5_0", 1, 0)
	})
	t.Run("driver reloaded while released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, releases := startReleasing(t, nil)
			h.reportFound(foundDevice("mlx5_0", 0))
			h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
			releases.set("mlx5_0", true)
			h.review()
			synctest.Wait()
			h.reportFound()
			h.mono.Add(int64(time.Minute))
			h.reportFound(foundDevice("mlx5_0", 1))
			releases.set("mlx5_0", false)
			h.review()
			h.mono.Add(int64(time.Minute))
			requireRemovals(t, h, "mlx5_0", 1, 0)
		})
	})
	t.Run("given to a virtual machine and back", func(t *testing.T) {
		h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
		h.removeDevice(sup)
		pci.set(vf, verbs.PCIFunction{Driver: "vfio-pci", Instance: 7})
		requireRemovals(t, h, "mlx5_0", 1, 0)
		h.mono.Add(int64(time.Minute))
		pci.set(vf, boundFunction(7))
		h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 1))
		requireRemovals(t, h, "mlx5_0", 1, 0)
	})
	t.Run("renamed", func(t *testing.T) {
		h, _, _ := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
		h.reportFound(deviceOn(vf, "ibp0", 0))
		h.mono.Add(int64(time.Minute))
		requireRemovals(t, h, "ibp0", 0, 0)
	})
	t.Run("moved to another network namespace and back", func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_1", 1))
		sup := h.sup("mlx5_1", 0)
		h.openDevice(sup, "mlx5_1")
		h.removeDevice(sup)
		h.reportFound(movedDevice("mlx5_1", 1))
		h.mono.Add(int64(time.Minute))
		h.reportFound(exclusiveDevice("mlx5_1", 1))
		requireRemovals(t, h, "mlx5_1", 0, 0)
	})
}

// The monitor notices the removal of a PCI function even if Telegraf gathers rarely.
func TestReassignmentIsNoticedWithoutAGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pci, sup := startOnFunction(t, deviceOn(vf, "mlx5_0", 0))
		h.removeDevice(sup)
		pci.set(vf, verbs.PCIFunction{Driver: "vfio-pci", Instance: 7})
		time.Sleep(2 * retryInterval)
		h.mono.Add(int64(time.Minute))
		h.sink.takePoints()
		pci.set(vf, boundFunction(7))
		h.reopenDevice(sup, deviceOn(vf, "mlx5_0", 1))
		emitted := pointsOf[measure.Device](h.sink.takePoints())
		require.NotEmpty(t, emitted)
		require.Zero(t, emitted[len(emitted)-1].UnplannedRemovals)
	})
}
