package monitor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestCountersAreZeroBeforeTheFirstEvent(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	s := h.gather()
	require.Len(t, s.Async, 1, "before the device is open only its own series is known")
	require.Len(t, s.Async[0].Types, 14)
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	s = h.gather()
	require.Len(t, s.Async, 3)
	require.Equal(t, measure.Async{Device: "mlx5_0", Port: 2, At: s.Collector.At, Types: []measure.EventCount{
		{Type: verbs.EventPortActive}, {Type: verbs.EventPortErr}, {Type: verbs.EventLIDChange},
		{Type: verbs.EventPKeyChange}, {Type: verbs.EventSMChange}, {Type: verbs.EventClientReregister},
		{Type: verbs.EventGIDChange},
	}}, s.Async[2])
	p := findPort(s, "mlx5_0", 1)
	require.True(t, p.Known)
	require.True(t, p.HasState)
	require.False(t, p.HasStateAge)
	require.Equal(t, verbs.PortActive, p.State)
	require.InDelta(t, 100.0, p.Attr.RateGbps, 0)
}

func TestADeviceIsReportedFromWhenItIsFound(t *testing.T) {
	h := startMonitor(t, nil)
	require.Empty(t, h.gather().Devices)
	h.reportFound(foundDevice("mlx5_0", 0))
	v := pointsOf[measure.Device](h.sink.takePoints())
	require.Len(t, v, 1)
	require.True(t, v[0].Present)
	require.False(t, v[0].Open)
	require.Equal(t, status.StateStarting, v[0].Worker.State)
	h.sup("mlx5_0", 0).Status(status.Status{State: status.StateStarting})
	h.sup("mlx5_0", 0).Status(status.Status{State: status.StateStarting, PID: 42, Message: "opening"})
	require.Empty(t, h.sink.takePoints(), "values that no point contains are no change")
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	v = pointsOf[measure.Device](h.sink.takePoints())
	require.Len(t, v, 1, "opened and running are one change")
	require.True(t, v[0].Open)
	require.EqualValues(t, 1, v[0].Opens)
	require.Equal(t, 4, v[0].Attr.Vectors)
	require.Equal(t, status.StateRunning, v[0].Worker.State)
	c := h.gather().Collector
	require.Equal(t, 1, c.Devices)
	require.Equal(t, 1, c.Workers)
	require.EqualValues(t, 42, c.WorkerRSS)
}

func TestADeviceThatIsNotWantedIsNotTouched(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.Devices = func(name string) bool { return name != "mlx5_1" } })
	vf := foundDevice("mlx5_2", 2)
	vf.VirtualFunction = true
	h.reportFound(foundDevice("mlx5_0", 0), foundDevice("mlx5_1", 1), vf)
	require.Len(t, h.sups, 1)
	require.Len(t, h.gather().Devices, 1)
}

func TestVirtualFunctionsAreWatchedOnRequest(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.VirtualFunctions = verbs.VirtualAll })
	vf := foundDevice("mlx5_2", 2)
	vf.VirtualFunction = true
	h.reportFound(vf)
	require.Len(t, h.gather().Devices, 1)
}

func TestAnExpectedDeviceIsMissedOnlyAfterDiscoveryHasAnswered(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.Expect = []string{"mlx5_9"} })
	require.Empty(t, h.gather().Devices)
	h.reportFound()
	s := h.gather()
	require.Len(t, s.Devices, 1)
	require.False(t, s.Devices[0].Present)
	require.Equal(t, status.ReasonNoDevice, s.Devices[0].Reason)
	require.Empty(t, s.Async)
	require.Zero(t, s.Collector.Devices)
	h.reportFound(foundDevice("mlx5_9", 9))
	require.True(t, findDevice(h.gather(), "mlx5_9").Present)
}

func TestAWorkerSeesTheRemovalBeforeDiscoveryDoes(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	h.sink.takePoints()
	h.mono.Add(ms)
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	items := h.sink.takePoints()
	require.Len(t, pointsOf[measure.Change](items), 2)
	require.Equal(t, verbs.PortAbsent, pointsOf[measure.Change](items)[0].To)
	require.False(t, pointsOf[measure.Port](items)[0].Known)
	require.Len(t, pointsOf[measure.Device](items), 1)
	h.reportFound(foundDevice("mlx5_0", 0)) // sysfs still has it
	v := findDevice(h.gather(), "mlx5_0")
	require.False(t, v.Present)
	require.False(t, v.Open)
	require.EqualValues(t, 1, v.Removals)
	require.Equal(t, status.ReasonRemoved, v.Reason)
	require.Zero(t, sup.wakes.Load(), "a worker would block the removal")
	h.reportFound()
	require.EqualValues(t, 1, findDevice(h.gather(), "mlx5_0").Removals)

	h.reportFound(foundDevice("mlx5_0", 7))
	require.EqualValues(t, 1, sup.wakes.Load())
	h.openDevice(sup, "mlx5_0")
	s := h.gather()
	require.Equal(t, status.ReasonOK, findDevice(s, "mlx5_0").Reason)
	require.EqualValues(t, 2, findDevice(s, "mlx5_0").Opens)
	p := findPort(s, "mlx5_0", 1)
	require.Equal(t, verbs.PortActive, p.State)
	require.EqualValues(t, 2, p.Transitions)
	require.Zero(t, p.Flaps)
	require.Zero(t, p.DownNS)
}

func TestADeviceThatWasNotRemovedAfterAllIsTriedAgain(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.mono.Add(9 * sec)
	require.False(t, findDevice(h.gather(), "mlx5_0").Present)
	require.Zero(t, sup.wakes.Load())
	h.mono.Add(1 * sec)
	h.gather()
	h.gather()
	require.EqualValues(t, 1, sup.wakes.Load())
	h.openDevice(sup, "mlx5_0")
	s := h.gather()
	require.True(t, findDevice(s, "mlx5_0").Present)
	require.True(t, findDevice(s, "mlx5_0").Open)
	require.Equal(t, verbs.PortActive, findPort(s, "mlx5_0", 2).State)
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.reportFound()
	h.mono.Add(60 * sec)
	h.gather()
	require.EqualValues(t, 1, sup.wakes.Load())
	require.EqualValues(t, 2, findDevice(h.gather(), "mlx5_0").Removals)
}

// Telegraf may gather every ten minutes, or not at all after its clock was set back.
func TestDeviceThatWasNotRemovedIsTriedAgainWithoutAGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		sup.Ended(status.End{Reason: status.ReasonRemoved})
		h.mono.Add(9 * sec)
		time.Sleep(2 * retryInterval)
		require.Zero(t, sup.wakes.Load())
		h.mono.Add(2 * sec)
		time.Sleep(2 * retryInterval)
		require.EqualValues(t, 1, sup.wakes.Load())
	})
}

// The Supervisor started no worker, since sysfs lacked the device for a moment (process.Spec.Present).
func TestPresentDeviceWithoutAWorkerIsTriedAgain(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.mono.Add(60 * sec)
	sup.Status(status.Status{State: status.StateStopped, Reason: status.ReasonRemoved})
	h.gather()
	h.gather()
	require.EqualValues(t, 1, sup.wakes.Load())
}

// A worker reports removals, but the kernel keeps the device.
func TestDisprovedRemovalsAreCountedOnce(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	for range 5 {
		h.openDevice(sup, "mlx5_0")
		sup.Ended(status.End{Reason: status.ReasonRemoved})
	}
	require.EqualValues(t, 1, findDevice(h.gather(), "mlx5_0").Removals)
	h.reportFound()
	require.EqualValues(t, 2, findDevice(h.gather(), "mlx5_0").Removals, "discovery has confirmed the last one")
	h.reportFound(foundDevice("mlx5_0", 1))
	h.openDevice(sup, "mlx5_0")
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	require.EqualValues(t, 3, findDevice(h.gather(), "mlx5_0").Removals, "it is another device")
}

// The device went to another network namespace and came back before discovery saw it.
func TestADeviceThatTheKernelAddsAgainIsTriedAtOnce(t *testing.T) {
	h := startMonitor(t, nil)
	f := foundDevice("mlx5_0", 0)
	f.Added = 3
	h.reportFound(f)
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.reportFound(f)
	require.Zero(t, sup.wakes.Load(), "it is listed, but its removal is under way")
	f.Added = 4
	h.reportFound(f)
	require.EqualValues(t, 1, sup.wakes.Load())
	require.True(t, findDevice(h.gather(), "mlx5_0").Present)
	require.EqualValues(t, 1, findDevice(h.gather(), "mlx5_0").Removals)
}

func TestDiscoverySeesTheRemovalFirst(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	h.reportFound()
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.sink.takePoints()
	h.batch(sup, readingItem(1, h.mono.Load(), verbs.PortActive))
	require.Empty(t, h.sink.takePoints(), "a reading that was still under way")
	v := findDevice(h.gather(), "mlx5_0")
	require.False(t, v.Present)
	require.EqualValues(t, 1, v.Removals)
	require.Equal(t, verbs.PortAbsent, findPort(h.gather(), "mlx5_0", 2).State)
}

func TestDeviceReplacedBetweenTwoReportsIsRemovedOnce(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.openDevice(sup, "mlx5_0")
	h.reportFound(foundDevice("mlx5_0", 5))
	require.EqualValues(t, 1, sup.wakes.Load())
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	v := findDevice(h.gather(), "mlx5_0")
	require.True(t, v.Present)
	require.False(t, v.Open)
	require.EqualValues(t, 1, v.Removals)
	h.openDevice(sup, "mlx5_0")
	require.True(t, findDevice(h.gather(), "mlx5_0").Open)
}

func TestADeviceThatLosesItsNodeIsBeingRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		sup := h.sup("mlx5_0", 0)
		h.openDevice(sup, "mlx5_0")
		bare := foundDevice("mlx5_0", 0)
		bare.Node = ""
		h.reportFound(bare)
		require.False(t, findDevice(h.gather(), "mlx5_0").Present)
		h.reportFound(bare)
		require.Zero(t, sup.wakes.Load())
		require.Len(t, h.sups, 1)
		h.reportFound(foundDevice("mlx5_0", 0))
		synctest.Wait()
		require.True(t, findDevice(h.gather(), "mlx5_0").Present)
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		require.True(t, findDevice(h.gather(), "mlx5_0").Open)
	})
}

func TestADeviceThatGetsItsNodeLateIsTriedAgain(t *testing.T) {
	h := startMonitor(t, nil)
	bare := foundDevice("mlx5_0", 0)
	bare.Node = ""
	h.reportFound(bare)
	require.True(t, findDevice(h.gather(), "mlx5_0").Present)
	h.reportFound(foundDevice("mlx5_0", 0))
	require.EqualValues(t, 1, h.sup("mlx5_0", 0).wakes.Load())
}

// The worker has the device open all the time, and does not repeat what it has reported.
func TestWorkerOfADeviceThatDiscoveryMissedIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("mlx5_0", 0))
		h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
		h.reportFound()
		h.reportFound(foundDevice("mlx5_0", 0))
		synctest.Wait()
		h.mono.Add(sec)
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		s := h.gather()
		require.True(t, findDevice(s, "mlx5_0").Open)
		require.EqualValues(t, 2, findDevice(s, "mlx5_0").Opens)
		require.Equal(t, verbs.PortActive, findPort(s, "mlx5_0", 1).State)
	})
}

// The worker was slow to report that it had opened the device. Meanwhile the device was removed.
func TestDeviceThatWasRemovedBeforeItsWorkerReportedItIsRemovedOnce(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	h.reportFound()
	h.openDevice(sup, "mlx5_0")
	require.False(t, findDevice(h.gather(), "mlx5_0").Present)
	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.mono.Add(2 * int64(fatalLimit))
	v := findDevice(h.gather(), "mlx5_0")
	require.True(t, v.Missing())
	require.EqualValues(t, 1, v.Removals)
	require.EqualValues(t, 1, v.UnplannedRemovals)
}

func TestDevicesThatNeverComeBackAreForgotten(t *testing.T) {
	h := startMonitor(t, func(c *Config) { c.Expect = []string{"vf0"} })
	for i := range maxGoneDevices + 50 {
		h.mono.Add(ms)
		name := fmt.Sprintf("vf%d", i)
		h.reportFound(foundDevice(name, i))
		sup := h.sup(name, 0)
		sup.Started(h.ledger(), nil)
		h.batch(sup, openedItem(name, 1), eventItem(verbs.EventCQErr, 0, 1, 0, 0))
		sup.Status(status.Status{State: status.StateStopped, Restarts: 2})
		sup.Ended(status.End{Reason: status.ReasonRemoved})
	}
	h.reportFound()
	s := h.gather()
	require.Len(t, s.Devices, maxGoneDevices+1)
	require.Equal(t, "vf0", s.Devices[0].Device)
	require.EqualValues(t, maxGoneDevices+50, s.Collector.AsyncEvents)
	require.EqualValues(t, 2*(maxGoneDevices+50), s.Collector.WorkerRestarts)
	<-h.sup("vf1", 0).ended
}

func TestRunEndsWithItsErrorWhenDiscoveryFails(t *testing.T) {
	failure := errors.New("no netlink")
	h := newHarness(t, func(c *Config) { c.Discovery = discoveryFunc(func() error { return failure }) })
	require.ErrorIs(t, h.Run(context.Background()), failure)
}

func TestADiscoveryWithoutFurtherChangesKeepsRunning(t *testing.T) {
	returned := make(chan struct{})
	h := newHarness(t, func(c *Config) {
		c.Discovery = discoveryFunc(func() error { close(returned); return nil })
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	<-returned
	select {
	case err := <-done:
		require.FailNow(t, "ended", "%v", err)
	default:
	}
	cancel()
	require.NoError(t, <-done)
}

type discoveryFunc func() error

func (f discoveryFunc) Run(context.Context, func([]verbs.Found)) error { return f() }

func TestManyDevicesAreHandledWhileOthersGather(t *testing.T) {
	h := startMonitor(t, nil)
	const devices = 8
	var set []verbs.Found
	for i := range devices {
		set = append(set, foundDevice(fmt.Sprintf("d%d", i), i))
	}
	h.reportFound(set...)
	var wg sync.WaitGroup
	for i := range devices {
		sup := h.sup(set[i].Name, 0)
		led := h.openDevice(sup, set[i].Name)
		wg.Go(func() {
			for n := range int64(200) {
				led.Count(int32(verbs.EventPortErr), 1, 1, 1)
				h.batch(sup, eventItem(verbs.EventPortErr, 1, 1, n, n), eventItem(verbs.EventPortActive, 1, 1, n, n),
					verbs.Item{Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, Round: verbs.Round{Wake: 5}}})
			}
			sup.Ended(status.End{Reason: status.ReasonCrashed})
		})
	}
	wg.Go(func() {
		for range 50 {
			h.gather()
		}
	})
	for range 20 {
		h.reportFound(set[:devices/2]...)
		h.reportFound(set...)
	}
	wg.Wait()
	require.EqualValues(t, devices*400, h.gather().Collector.AsyncEvents)
}

func TestASuccessorThatItsWorkerOpenedBeforeItWasFoundIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("mlx5_0", 5))
		first := h.sup("mlx5_0", 0)
		h.openDevice(first, "mlx5_0") // the successor, by its name
		h.reportFound(foundDevice("mlx5_0", 6))
		require.False(t, findDevice(h.gather(), "mlx5_0").Open)
		h.mono.Add(9 * sec)
		h.gather()
		require.Len(t, h.sups, 1, "the worker of the old device may still end")
		first.last = func() { first.Ended(status.End{Reason: status.ReasonOK}) }
		h.mono.Add(2 * sec)
		h.gather()
		synctest.Wait()
		h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
		v := findDevice(h.gather(), "mlx5_0")
		require.True(t, v.Open)
		require.Equal(t, status.ReasonOK, v.Reason)
		require.EqualValues(t, 1, v.Removals)
		h.mono.Add(20 * sec)
		h.gather()
		require.Len(t, h.sups, 2)
	})
}

func TestADeviceThatIsAwayIsNotTriedAgainAndAgain(t *testing.T) {
	backingOff := status.Status{State: status.StateBackingOff, Reason: status.ReasonStuck}
	for name, play := range map[string]func(*harness, *fakeSupervisor){
		"its worker ends after discovery has seen it go": func(h *harness, s *fakeSupervisor) {
			h.reportFound()
			s.Ended(status.End{Reason: status.ReasonStuck})
			s.Status(backingOff)
		},
		"its worker ends before": func(h *harness, s *fakeSupervisor) {
			s.Ended(status.End{Reason: status.ReasonStuck})
			s.Status(backingOff)
			h.reportFound()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startMonitor(t, nil)
				h.reportFound(foundDevice("mlx5_0", 0))
				first := h.sup("mlx5_0", 0)
				h.openDevice(first, "mlx5_0")
				play(h, first)
				<-first.ended
				synctest.Wait()
				require.Equal(t, status.StateStopped, findDevice(h.gather(), "mlx5_0").Worker.State)
				h.reportFound(foundDevice("mlx5_0", 1))
				h.openDevice(h.sup("mlx5_0", 1), "mlx5_0")
				require.True(t, findDevice(h.gather(), "mlx5_0").Open)
			})
		})
	}
}

func TestANodeThatComesWhileTheWorkerHasTheDeviceOpenIsNoReasonToTryAgain(t *testing.T) {
	h := startMonitor(t, nil)
	bare := foundDevice("mlx5_0", 0)
	bare.Node = ""
	h.reportFound(bare)
	h.openDevice(h.sup("mlx5_0", 0), "mlx5_0")
	h.reportFound(foundDevice("mlx5_0", 0))
	require.Zero(t, h.sup("mlx5_0", 0).wakes.Load())
	require.True(t, findDevice(h.gather(), "mlx5_0").Open)
}

func TestAHostWithoutDevicesHasNoPoint(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound()
	require.Empty(t, h.gather().Hosts)
	h.reportFound(foundDevice("mlx5_0", 0))
	require.Len(t, h.gather().Hosts, 1)
}

func TestTotalsOfTheHostKeepWhatARenamedOrForgottenDeviceHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(foundDevice("a", 0))
		h.openDevice(h.sup("a", 0), "a")
		_, mono, _ := h.now()
		h.batch(h.sup("a", 0), eventItem(verbs.EventPortErr, 1, 1, mono, mono), eventItem(verbs.EventPortActive, 1, 1, mono+1, mono+1))
		want := h.gather().Hosts[0].HostTotals
		require.EqualValues(t, 1, want.Flaps)
		h.reportFound(foundDevice("b", 0))
		synctest.Wait()
		for range 3 {
			require.Equal(t, want, h.gather().Hosts[0].HostTotals)
		}
		h.reportFound(foundDevice("a", 0))
		require.Equal(t, want, h.gather().Hosts[0].HostTotals)
		for i := range maxGoneDevices + 2 {
			h.reportFound(foundDevice(fmt.Sprint("c", i), i+10))
			synctest.Wait()
		}
		require.Equal(t, want, h.gather().Hosts[0].HostTotals)
	})
}
