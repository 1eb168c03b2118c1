package monitor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// exclusiveDevice returns a device that belongs only to this network namespace.
func exclusiveDevice(name string, index int) verbs.Found {
	f := foundDevice(name, index)
	f.PCI, f.Driver, f.Netns = functionAddress(index), "mlx5_core", verbs.NetnsOwn
	return f
}

// movedDevice returns the same device after its move to another network namespace, as sysfs shows it here.
func movedDevice(name string, index int) verbs.Found {
	return verbs.Found{
		Name: name, Index: -1, Node: foundDevice(name, index).Node, PCI: functionAddress(index), Driver: "mlx5_core", Netns: verbs.NetnsOther,
	}
}

func functionAddress(index int) string { return "0000:3b:00." + string(rune('0'+index)) }

// reportMoveByKernel makes a worker report what it does while the kernel moves its device away: a device_fatal and a removal.
func (h *harness) reportMoveByKernel(sup *fakeSupervisor) {
	h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 1, h.mono.Load(), h.mono.Load()))
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	sup.Status(status.Status{State: status.StateStopped, Reason: status.ReasonRemoved})
}

// requireNoLoss requires that neither the emitted points nor the counts of the host report the loss of a device.
func requireNoLoss(t *testing.T, h *harness, s gathered) {
	t.Helper()
	for _, v := range append(pointsOf[measure.Device](h.sink.takePoints()), s.Devices...) {
		require.True(t, v.Present, "%+v", v)
		require.False(t, v.Missing(), "%+v", v)
		require.Zero(t, v.Removals+v.Fatals+v.Worker.Crashes, "%+v", v)
	}
	require.Len(t, s.Hosts, 1)
	require.Zero(t, s.Hosts[0].Missing+s.Hosts[0].PortsDown, "nothing of the host alerts")
	for _, p := range s.Ports {
		require.Zero(t, p.Flaps)
	}
}

func requireAway(t *testing.T, h *harness, device string, age time.Duration) {
	t.Helper()
	s := h.gather()
	requireNoLoss(t, h, s)
	v := requireClosedWithoutAlert(t, s, device, status.ReasonOtherNetns, true)
	require.True(t, v.InOtherNetns)
	require.Equal(t, age, time.Duration(v.OtherNetnsNS))
	for _, p := range s.Ports {
		require.False(t, p.Known && p.Device == device, "the port has no state that could alert")
	}
}

func TestDeviceMovedAwayAndBackIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_0", 0), exclusiveDevice("mlx5_1", 1))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		sup := h.sup("mlx5_1", 0)
		h.openDevice(sup, "mlx5_1")
		h.mono.Store(10 * sec)
		h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, 10*sec, 10*sec)) // its network device goes first
		h.reportMoveByKernel(sup)
		requireNoLoss(t, h, h.gather())
		h.mono.Store(11 * sec)
		h.reportFound(exclusiveDevice("mlx5_0", 0), movedDevice("mlx5_1", 1))
		synctest.Wait()
		<-sup.ended
		requireAway(t, h, "mlx5_1", time.Second)
		h.mono.Store(100 * sec)
		h.reportFound(exclusiveDevice("mlx5_0", 0), movedDevice("mlx5_1", 1))
		time.Sleep(2 * retryInterval)
		requireAway(t, h, "mlx5_1", 90*time.Second)
		require.Empty(t, pointsOf[measure.Device](h.sink.takePoints()), "that time passes is no change")
		require.Len(t, h.sups, 2, "nobody tries to open it")

		back := exclusiveDevice("mlx5_1", 1)
		back.Added = 1
		h.reportFound(exclusiveDevice("mlx5_0", 0), back)
		again := h.sup("mlx5_1", 1)
		h.openDevice(again, "mlx5_1")
		h.batch(again, eventItem(verbs.EventLIDChange, 1, 3, 101*sec, 101*sec))
		s := h.gather()
		v := findDevice(s, "mlx5_1")
		require.True(t, v.Open)
		require.Equal(t, status.ReasonOK, v.Reason)
		require.EqualValues(t, 2, v.Opens)
		require.False(t, v.InOtherNetns)
		requireNoLoss(t, h, s)
		require.EqualValues(t, 1, findCount(findAsync(s, "mlx5_1", 0), verbs.EventDeviceFatal).Total, "the event itself is counted")
		require.EqualValues(t, 3, findCount(findAsync(s, "mlx5_1", 1), verbs.EventLIDChange).Total)
		h.mono.Add(int64(time.Hour))
		requireNoLoss(t, h, h.gather())
	})
}

// Discovery may scan while the kernel moves the device: after the node is gone, or after the whole device is gone.
func TestLookDuringAMoveCountsNoRemoval(t *testing.T) {
	for name, during := range map[string]struct {
		look  func() []verbs.Found
		first bool // discovery reports before the worker does
	}{
		"without a node":                       {look: func() []verbs.Found { f := exclusiveDevice("mlx5_1", 1); f.Node = ""; return []verbs.Found{f} }},
		"in neither namespace":                 {look: func() []verbs.Found { return nil }},
		"as before":                            {look: func() []verbs.Found { return []verbs.Found{exclusiveDevice("mlx5_1", 1)} }},
		"without a node, before the worker":    {func() []verbs.Found { f := exclusiveDevice("mlx5_1", 1); f.Node = ""; return []verbs.Found{f} }, true},
		"in neither namespace, before it":      {func() []verbs.Found { return nil }, true},
		"in the other namespace, and not back": {look: func() []verbs.Found { return []verbs.Found{movedDevice("mlx5_1", 1)} }},
	} {
		t.Run(name, func(t *testing.T) {
			h := startMonitor(t, nil)
			h.reportFound(exclusiveDevice("mlx5_1", 1))
			sup := h.sup("mlx5_1", 0)
			h.openDevice(sup, "mlx5_1")
			h.mono.Store(10 * sec)
			if !during.first {
				h.reportMoveByKernel(sup)
			}
			h.reportFound(during.look()...)
			if during.first {
				h.reportMoveByKernel(sup)
			}
			requireNoLoss(t, h, h.gather())
			h.mono.Add(int64(moveLimit) - sec)
			requireNoLoss(t, h, h.gather())
			h.reportFound(movedDevice("mlx5_1", 1))
			requireAway(t, h, "mlx5_1", moveLimit-time.Second)

			f := exclusiveDevice("mlx5_1", 1)
			f.Node, f.Added = "", 1
			h.reportFound(f) // on its way back
			requireNoLoss(t, h, h.gather())
			f.Node = "uverbs7"
			h.reportFound(f)
			s := h.gather()
			requireNoLoss(t, h, s)
			require.Equal(t, status.ReasonStarting, findDevice(s, "mlx5_1").Reason)
			h.mono.Add(int64(time.Hour))
			requireNoLoss(t, h, h.gather())
		})
	}
}

// If no uevent reaches the worker, the plugin makes it close the device.
func TestWorkerThatMissedTheMoveIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_1", 1))
		sup := h.sup("mlx5_1", 0)
		h.openDevice(sup, "mlx5_1")
		sup.last = func() { h.reportMoveByKernel(sup) }
		h.reportFound(movedDevice("mlx5_1", 1))
		<-sup.ended
		synctest.Wait()
		requireAway(t, h, "mlx5_1", 0)
		h.reportFound(exclusiveDevice("mlx5_1", 1))
		h.openDevice(h.sup("mlx5_1", 1), "mlx5_1")
		h.mono.Add(int64(time.Hour))
		requireNoLoss(t, h, h.gather())
	})
}

func TestShortVisitToAnotherNamespaceIsNoRemoval(t *testing.T) {
	h := startMonitor(t, withEvidence)
	h.reportFound(exclusiveDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	h.mono.Store(sec)
	h.reportMoveByKernel(sup)
	h.sink.takePoints()
	f := exclusiveDevice("mlx5_0", 0)
	f.Added = 1
	h.reportFound(f)
	require.EqualValues(t, 1, sup.wakes.Load(), "it is opened at once")
	h.openDevice(sup, "mlx5_0")
	h.mono.Add(int64(time.Minute))
	s := h.gather()
	for _, e := range pointsOf[measure.Evidence](h.sink.items) {
		require.NotEqual(t, verbs.TriggerRemoved, e.Trigger)
	}
	requireNoLoss(t, h, s)
	require.EqualValues(t, 2, findDevice(s, "mlx5_0").Opens)
}

func TestDeviceThatCouldHaveMovedIsRemovedAfterAll(t *testing.T) {
	removed := func(t *testing.T, h *harness, device string) {
		t.Helper()
		s := h.gather()
		v := findDevice(s, device)
		require.False(t, v.Present)
		require.True(t, v.Missing())
		require.Equal(t, status.ReasonRemoved, v.Reason)
		require.EqualValues(t, 1, v.Removals)
		require.EqualValues(t, 1, s.Hosts[0].Missing)
	}
	t.Run("seen by the worker first", func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		h.mono.Store(sec)
		h.reportMoveByKernel(sup)
		h.reportFound()
		h.mono.Add(int64(moveLimit))
		removed(t, h, "mlx5_0")
		require.EqualValues(t, 1, findDevice(h.gather(), "mlx5_0").Fatals)
		h.mono.Add(int64(time.Hour))
		removed(t, h, "mlx5_0")
	})
	t.Run("without a gather", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := startMonitor(t, nil)
			h.reportFound(exclusiveDevice("mlx5_0", 0))
			h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
			h.mono.Store(sec)
			h.reportFound()
			h.mono.Add(int64(moveLimit))
			h.sink.takePoints()
			time.Sleep(2 * retryInterval)
			got := pointsOf[measure.Device](h.sink.takePoints())
			require.NotEmpty(t, got)
			require.False(t, got[len(got)-1].Present)
		})
	})
	t.Run("from the other namespace", func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		h.reportFound(movedDevice("mlx5_0", 0))
		h.mono.Store(sec)
		h.reportFound()
		requireNoLoss(t, h, h.gather())
		h.mono.Add(int64(moveLimit))
		removed(t, h, "mlx5_0")
	})
	t.Run("for a successor", func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(exclusiveDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		h.reportMoveByKernel(sup)
		f := exclusiveDevice("mlx5_0", 5)
		f.Added = 1
		h.reportFound(f)
		v := findDevice(h.gather(), "mlx5_0")
		require.True(t, v.Present)
		require.EqualValues(t, 1, v.Removals)
	})
}

func TestFatalOfADeviceThatStaysIsCounted(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(exclusiveDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	h.mono.Store(sec)
	h.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 2, sec, sec))
	require.Zero(t, findDevice(h.gather(), "mlx5_0").Fatals, "it may be moving")
	h.runUntil(sup, sec+int64(fatalLimit))
	require.EqualValues(t, 2, findDevice(h.gather(), "mlx5_0").Fatals)

	shared := startMonitor(t, nil)
	shared.reportFound(foundDevice("mlx5_0", 0))
	sup = shared.sup("mlx5_0", 0)
	shared.openDevice(sup, "mlx5_0")
	shared.batch(sup, eventItem(verbs.EventDeviceFatal, 0, 2, sec, sec))
	require.EqualValues(t, 2, findDevice(shared.gather(), "mlx5_0").Fatals, "no device can move in shared mode")
}

func TestDeviceThatWasAwayAtTheStartIsReported(t *testing.T) {
	h := startMonitor(t, func(c *Config) {
		c.Expect = []string{"mlx5_1"}
		c.Devices = func(name string) bool { return name != "mlx5_2" }
	})
	function := movedDevice("mlx5_3", 3)
	function.VirtualFunction = true
	h.reportFound(exclusiveDevice("mlx5_0", 0), movedDevice("mlx5_1", 1), movedDevice("mlx5_2", 2), function)
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	h.mono.Store(70 * sec)
	requireAway(t, h, "mlx5_1", 70*time.Second)
	require.Len(t, h.gather().Devices, 2, "the others are not watched")
	require.Len(t, h.sups, 1)
	h.reportFound(exclusiveDevice("mlx5_0", 0), exclusiveDevice("mlx5_1", 1))
	h.openDevice(h.sup("mlx5_1", 0), "mlx5_1")
	require.True(t, findDevice(h.gather(), "mlx5_1").Open)
}

func TestPodsRenameTheirDevices(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(exclusiveDevice("mlx5_0", 0))
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	h.reportMoveByKernel(h.sup("mlx5_0", 0))
	h.reportFound(movedDevice("mlx5_0", 0))
	h.reportFound(movedDevice("pod0", 0))
	require.Equal(t, status.ReasonRenamed, findDevice(h.gather(), "mlx5_0").Reason)
	h.mono.Store(9 * sec)
	s := h.gather()
	require.Equal(t, status.ReasonOtherNetns, findDevice(s, "pod0").Reason)
	require.Zero(t, s.Hosts[0].Missing)
	h.reportFound(exclusiveDevice("mlx5_0", 0))
	s = h.gather()
	require.Equal(t, status.ReasonRenamed, findDevice(s, "pod0").Reason)
	require.Equal(t, status.ReasonStarting, findDevice(s, "mlx5_0").Reason)
	h.mono.Add(int64(time.Hour))
	require.Zero(t, h.gather().Hosts[0].Missing)
}

func TestReleasedDeviceInAnotherNamespaceStaysReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(exclusiveDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		releases.set("mlx5_0", true)
		h.review()
		synctest.Wait()
		h.reportFound(movedDevice("mlx5_0", 0))
		requireReleased(t, h, "mlx5_0", true)
		releases.set("mlx5_0", false)
		h.review()
		requireAway(t, h, "mlx5_0", 0)
		require.Len(t, h.sups, 1)
	})
}

func TestMoveExplainsWhatHappenedBefore(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.reportFound(exclusiveDevice("mlx5_0", 0))
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0), eventItem(verbs.EventPortErr, 1, 1, sec, sec), snapshotItem(netDev(countersSnapshot("port_err", sec, 1, 1), false, false)))
	h.sink.takePoints()
	h.reportMoveByKernel(sup)
	h.reportFound(movedDevice("mlx5_0", 0))
	got := pointsOf[measure.Evidence](h.sink.takePoints())
	require.Len(t, got, 1, "the device is not removed")
	require.Equal(t, verbs.Trigger("port_err"), got[0].Trigger)
	require.Equal(t, cause.DriverRemoved, got[0].Cause)
}
