package monitor

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// smiDevice returns an SMI sub-device, which has no node.
func smiDevice(index int) verbs.Found {
	return verbs.Found{Name: "smi0", Index: index, NodeGUID: "b8e9:2403:00aa:0001", Unwatchable: "it is an SMI sub-device of mlx5_0"}
}

func requireUnwatchable(t *testing.T, h *harness, device string, present bool) measure.Device {
	t.Helper()
	return requireClosedWithoutAlert(t, h.gather(), device, status.ReasonUnwatchable, present)
}

func (h *harness) supervisors(device string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sups {
		if s.device == device {
			n++
		}
	}
	return n
}

func TestNoWorkerIsStartedForASubDevice(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(smiDevice(1))
	require.Zero(t, h.supervisors("smi0"))
	requireUnwatchable(t, h, "smi0", true)
	h.reportFound()
	require.Zero(t, requireUnwatchable(t, h, "smi0", false).Removals)
	h.reportFound(smiDevice(2))
	requireUnwatchable(t, h, "smi0", true)
	require.Zero(t, h.supervisors("smi0"))
}

func TestNoWorkerIsStartedWhileANodeIsAwaited(t *testing.T) {
	h := startMonitor(t, nil)
	pending := verbs.Found{Name: "mlx5_0", Index: -1, NodeGUID: "0002:c903:0000:0001", Pending: true}
	h.reportFound(pending)
	require.Zero(t, h.supervisors("mlx5_0"))
	require.Equal(t, status.ReasonStarting, findDevice(h.gather(), "mlx5_0").Reason)

	never := pending
	never.Pending, never.Unwatchable = false, "ib_uverbs makes no node for it"
	h.reportFound(never)
	requireUnwatchable(t, h, "mlx5_0", true)

	usable := pending
	usable.Pending, usable.Node = false, "uverbs0"
	h.reportFound(usable)
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
}

// Without ib_uverbs the plugin starts a worker, which loads it. Discovery reads the type of the device only then.
func TestWorkerOfASubDeviceIsEnded(t *testing.T) {
	h := startMonitor(t, nil)
	early := smiDevice(1)
	early.Unwatchable = ""
	h.reportFound(early)
	sup := h.sup("smi0", 0)
	sup.last = func() { // the report was under way
		sup.Ended(status.End{Reason: status.ReasonNoDevice})
		sup.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonNoDevice})
	}
	h.reportFound(smiDevice(1))
	<-sup.ended
	require.Eventually(t, func() bool { return findDevice(h.gather(), "smi0").Worker.State == status.StateStopped }, time.Minute, time.Millisecond)
	requireUnwatchable(t, h, "smi0", true)
	require.Equal(t, 1, h.supervisors("smi0"))
}

func TestExpectedSubDeviceThatIsGoneIsMissing(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.Expect = []string{"smi0"} })
	h.reportFound(smiDevice(1))
	requireUnwatchable(t, h, "smi0", true)
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, findDevice(h.gather(), "smi0").Reason)
}

func TestResumedSubDeviceIsUnwatchableAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(smiDevice(1))
		releases.set("smi0", true)
		h.review()
		require.Equal(t, status.ReasonReleased, findDevice(h.gather(), "smi0").Reason)
		releases.set("smi0", false)
		h.review()
		requireUnwatchable(t, h, "smi0", true)
		require.Zero(t, h.supervisors("smi0"))
	})
}

// refuseDevice acts as a worker whose library has no provider for the device.
func (h *harness) refuseDevice(s *fakeSupervisor) {
	s.Started(h.ledger(), nil)
	s.Ended(status.End{Reason: status.ReasonUnwatchable, Message: "no provider"})
	s.Status(status.Status{State: status.StateStopped, Reason: status.ReasonUnwatchable, Message: "no provider; trying again after a change"})
}

func TestDeviceWithoutAProviderIsTriedAgainAfterAChangeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var installed atomic.Bool
		h := startMonitor(t, func(c *Config) { c.LibrariesChanged = func() bool { return installed.Swap(false) } })
		irdma0 := foundDevice("irdma0", 0)
		h.reportFound(irdma0)
		sup := h.sup("irdma0", 0)
		h.refuseDevice(sup)
		requireUnwatchable(t, h, "irdma0", true)

		h.mono.Add(3600 * sec)
		time.Sleep(time.Hour)
		h.reportFound(irdma0)
		h.gather()
		require.Zero(t, sup.wakes.Load(), "nothing has changed")

		irdma0.Added++
		h.reportFound(irdma0)
		require.EqualValues(t, 1, sup.wakes.Load(), "the kernel reports it anew")
		installed.Store(true)
		time.Sleep(retryInterval)
		synctest.Wait()
		require.EqualValues(t, 2, sup.wakes.Load(), "a library was installed")
		time.Sleep(time.Hour)
		require.EqualValues(t, 2, sup.wakes.Load())

		h.openDevice(sup, "irdma0")
		installed.Store(true)
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, sup.wakes.Load(), "it is open")
		require.Equal(t, status.ReasonOK, findDevice(h.gather(), "irdma0").Reason)
	})
}

func TestDeviceWithoutAProviderIsNotMissedWhenItGoes(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("irdma0", 0))
	sup := h.sup("irdma0", 0)
	h.refuseDevice(sup)
	h.reportFound()
	<-sup.ended
	require.Zero(t, requireUnwatchable(t, h, "irdma0", false).Removals)
	h.reportFound(foundDevice("irdma0", 1))
	require.Equal(t, status.ReasonStarting, findDevice(h.gather(), "irdma0").Reason)
}
