package monitor

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// releaseSwitch holds which devices are released, by name; "" stands for all.
type releaseSwitch struct {
	mu       sync.Mutex
	released map[string]bool
}

func (s *releaseSwitch) set(name string, released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = map[string]bool{}
	}
	s.released[name] = released
}

func (s *releaseSwitch) get(f verbs.Found) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released[""] || s.released[f.Name]
}

// startReleasing starts a monitor whose devices can be released.
func startReleasing(t *testing.T, change func(*Config)) (*harness, *releaseSwitch) {
	t.Helper()
	var s releaseSwitch
	return startMonitor(t, func(c *Config) {
		c.Released = s.get
		if change != nil {
			change(c)
		}
	}), &s
}

func (h *harness) review() {
	h.t.Helper()
	require.NoError(h.t, h.Review(h.t.Context()))
}

func requireReleased(t *testing.T, h *harness, device string, present bool) measure.Device {
	t.Helper()
	s := h.gather()
	v := requireClosedWithoutAlert(t, s, device, status.ReasonReleased, present)
	for _, p := range s.Ports {
		require.False(t, p.Known, "the port has no state that could alert")
	}
	return v
}

func TestReleaseClosesTheDeviceAndCountsTheLastEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		led := h.openDevice(sup, "mlx5_0")
		sup.last = func() {
			// Three events arrive while the worker closes the device, one of them only in the ledger.
			h.batch(sup, eventItem(verbs.EventPortErr, 1, 2, h.mono.Load(), h.mono.Load()))
			led.Count(int32(verbs.EventPortErr), 1, 3, 3)
			sup.Ended(status.End{Reason: status.ReasonOK})
		}
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-sup.ended
		require.Equal(t, []Release{{Device: "mlx5_0"}}, h.Released())
		requireReleased(t, h, "mlx5_0", true)
		v := requireReleased(t, h, "mlx5_0", true)
		require.Zero(t, v.Removals+v.Worker.Crashes)
		require.Equal(t, uint64(3), findCount(findAsync(h.gather(), "mlx5_0", 1), verbs.EventPortErr).Total)

		releases.set("", false)
		h.review()
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		require.Empty(t, h.Released())
		s := h.gather()
		require.Equal(t, status.ReasonOK, findDevice(s, "mlx5_0").Reason)
		require.Equal(t, uint64(2), findDevice(s, "mlx5_0").Opens)
		require.Zero(t, findPort(s, "mlx5_0", 1).Flaps)
		require.Equal(t, uint64(3), findCount(findAsync(s, "mlx5_0", 1), verbs.EventPortErr).Total)
	})
}

// The card of a released device is taken out of the kernel, and found again.
func TestRemovalOfAReleasedFunctionIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pci bus
		pci.set(vf, boundFunction(7))
		h, release := startReleasing(t, func(c *Config) { c.Function = pci.get })
		h.reportFound(deviceOn(vf, "mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		sup.last = func() { sup.Ended(status.End{Reason: status.ReasonOK}) }
		release.set("mlx5_0", true)
		h.review()
		synctest.Wait()
		pci.set(vf, verbs.PCIFunction{Absent: true})
		h.reportFound()
		h.mono.Add(2 * int64(fatalLimit))
		requireCounts(t, requireReleased(t, h, "mlx5_0", false), 1, 0, 0)
		pci.set(vf, boundFunction(8))
		h.reportFound(deviceOn(vf, "mlx5_0", 1))
		requireCounts(t, requireReleased(t, h, "mlx5_0", true), 1, 0, 0)
		release.set("mlx5_0", false)
		h.review()
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")

		pci.set(vf, verbs.PCIFunction{Absent: true})
		h.reportFound()
		requireCounts(t, findDevice(h.gather(), "mlx5_0"), 2, 1, 0)
	})
}

func TestReleasedDeviceIsNotOpenedWhateverAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-h.sup("mlx5_0", 0).ended
		h.reportFound() // the driver is unloaded
		v := requireReleased(t, h, "mlx5_0", false)
		require.Equal(t, uint64(1), v.Removals)
		h.reportFound(foundDevice("mlx5_0", 1))                         // loaded again
		h.reportFound(foundDevice("mlx5_0", 1), foundDevice("new0", 2)) // with another device
		h.reportFound(foundDevice("rocep1", 1), foundDevice("new0", 2)) // and renamed
		require.Len(t, h.sups, 1, "no worker is started")
		requireReleased(t, h, "new0", true)
		requireReleased(t, h, "rocep1", true)
		require.Equal(t, []Release{{Device: "new0"}, {Device: "rocep1"}}, h.Released())

		releases.set("", false)
		h.review()
		h.openDevice(h.sup("rocep1", 0), "rocep1")
		h.openDevice(h.sup("new0", 0), "new0")
		require.Equal(t, status.ReasonOK, findDevice(h.gather(), "new0").Reason)
	})
}

func TestDeviceThatIsGoneAfterItsReleaseIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, func(c *Config) { c.Expect = []string{"never0"} })
		releases.set("", true)
		h.reportFound() // the plugin was restarted during the release
		requireReleased(t, h, "never0", false)
		h.reportFound(foundDevice("mlx5_0", 0))
		require.Empty(t, h.sups)
		h.reportFound()
		requireReleased(t, h, "mlx5_0", false)
		require.Empty(t, h.Released(), "there is nothing to close")
		releases.set("", false)
		h.review()
		s := h.gather()
		require.Equal(t, status.ReasonRemoved, findDevice(s, "mlx5_0").Reason)
		require.Equal(t, status.ReasonNoDevice, findDevice(s, "never0").Reason)
		require.Equal(t, int64(2), s.Hosts[0].Missing)
	})
}

func TestOneReleasedDeviceLeavesTheOtherOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		h.openDevice(h.sup("mlx5_1", 0), "mlx5_1")
		releases.set("mlx5_1", true)
		h.review()
		synctest.Wait()
		<-h.sup("mlx5_1", 0).ended
		s := h.gather()
		require.True(t, findDevice(s, "mlx5_0").Open)
		require.Equal(t, status.ReasonReleased, findDevice(s, "mlx5_1").Reason)
	})
}

// A worker that was opening the device when it was released reports success, and must close it nevertheless.
func TestWorkerThatOpensDuringTheReleaseWatchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		sup.last = func() {
			h.openDevice(sup, "mlx5_0")
			require.Equal(t, []Release{{Device: "mlx5_0", Open: true}}, h.Released(), "its worker runs")
		}
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-sup.ended
		requireReleased(t, h, "mlx5_0", true)
	})
}

func TestDeviceResumedWhileItsWorkerClosesIsOpenedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		sup.last = func() {
			releases.set("", false)
			h.review()
		}
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-sup.ended
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
	})
}

// abandoned is the error of a Supervisor whose worker the kernel holds until left is closed.
type abandoned struct{ left chan struct{} }

func (abandoned) Error() string           { return "the killed process has not ended: worker (process 42)" }
func (a abandoned) Left() <-chan struct{} { return a.left }

func TestWorkerThatTheKernelHoldsIsNotClosedUntilItLeaves(t *testing.T) {
	d := &Device{name: "mlx5_0", released: true}
	why := abandoned{make(chan struct{})}
	d.recordUnclosed(why)
	r, ok := d.releaseState()
	require.True(t, ok)
	require.Equal(t, Release{Device: "mlx5_0", Held: why.Error()}, r)
	d.recordUnclosed(nil) // of the next worker, after the device was resumed and released again
	r, _ = d.releaseState()
	require.Equal(t, why.Error(), r.Held, "the first one still has the device open")
	close(why.left)
	_, ok = d.releaseState()
	require.False(t, ok, "nothing has it open any more")
}

// A removal that only the worker has reported may be wrong, so the plugin tries to open the device again after the release.
func TestDeviceWhoseRemovalIsUnconfirmedIsTriedAfterItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		sup.Ended(status.End{Reason: status.ReasonRemoved})
		require.False(t, findDevice(h.gather(), "mlx5_0").Present)
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-sup.ended
		releases.set("", false)
		h.review()
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		require.Equal(t, status.ReasonOK, findDevice(h.gather(), "mlx5_0").Reason)
	})
}

// releaseOrder records in which order a release reaches the subscribers and the worker.
type releaseOrder struct {
	mu     sync.Mutex
	events []string
}

func (f *releaseOrder) record(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event)
}

func TestPeersHearOfAReleaseBeforeTheWorkerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &releaseOrder{}
		h, releases := startReleasing(t, func(c *Config) {
			c.Subscribers = []func(Update){func(u Update) {
				if u.Gone {
					f.record("gone " + u.Device)
				}
			}}
		})
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		sup.last = func() { f.record("worker closes") }
		releases.set("", true)
		h.review()
		synctest.Wait()
		<-sup.ended
		require.Equal(t, []string{"gone mlx5_0", "worker closes"}, f.events)
	})
}
