//go:build guest

package system

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// memoryLimit is the limit for the resident memory of plugin and worker together at
// any time, including the pages of their programs.
const memoryLimit = 64 << 20

func TestAStormIsCountedToTheLastEvent(t *testing.T) {
	events := 1_000_000
	if testing.Short() {
		events = 200_000
	}
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		ours := append(rig.Children(t, r.PID()), r.Workers()...)
		sendBurst(t, r, events, int64(events))
		requireSmall(t, "a storm", ours)
		t.Logf("a storm, events injected: %d", events)
		t.Logf("a storm, events counted: %d", eventCounter(r.Points(), "1", "pkey_change"))

		s := startStorm(t)
		r.Await("the storm", 20*time.Second, func(p []rig.Point) bool { return eventSum(p, device, "unknown_21") > 0 })
		began := time.Now()
		r.Stop()
		requireShutdown(t, "in a storm", time.Since(began), ours)
		s.end()
		if log := r.Log(); strings.Contains(log, "lost") {
			t.Errorf("want all reported to a Telegraf that reads, got:\n%s", log)
		}
	})
}

// Telegraf stops reading in the middle of a storm, and its pipe becomes full. The
// worker's ledger has the events that it has read and acknowledged by then.
func TestAStoppedTelegrafHoldsUpNoReader(t *testing.T) {
	stopped := 30 * time.Second
	if testing.Short() {
		stopped = 6 * time.Second
	}
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		ours := append(rig.Children(t, r.PID()), r.Workers()...)
		plugin, worker := ours[0], ours[1]
		s := startStorm(t)
		r.Await("the storm", 20*time.Second, func(p []rig.Point) bool { return eventSum(p, device, "unknown_21") > 0 })
		stopProcess(t, r.PID())
		awaitFull(t, plugin)
		full := eventsRead(ledgerOf(t, worker))
		<-time.After(stopped)
		injected := s.end()
		last := awaitLedger(t, worker, injected)
		if !rig.IsFull(t, plugin, 1) || last <= full {
			t.Errorf("want events read while stdout is full: %d when it was, %d now", full, last)
		}
		requireSmall(t, "a storm that Telegraf does not read", ours)
		sendSignal(t, r.PID(), syscall.SIGCONT)
		points := awaitCounted(r, injected)
		rig.RequireCountersNeverFall(t, points)
		t.Logf("Telegraf stopped in a storm: for %v after stdout was full; %d events read, %d of them while stdout was full, all counted",
			stopped, last, last-full)

		requireTerminates(t, r, ours)
	})
}

// The plugin itself is stopped, so the worker's messages have no receiver. The
// events are more than gRPC and the socket can buffer, 1 MiB and 0.2 MiB, at some 60
// bytes each. Consecutive events differ in type, because equal ones would be merged.
func TestAStoppedPluginHoldsUpNoReader(t *testing.T) {
	const first, last, each = 21, 36, 2500
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		ours := append(rig.Children(t, r.PID()), r.Workers()...)
		plugin, worker := ours[0], ours[1]
		injected := map[int]int64{}
		stopProcess(t, plugin)
		guest.InjectInTurn(t, device, first, last, 1, each)
		for n := first; n <= last; n++ {
			injected[n] = each
		}
		t.Logf("%d events read while the plugin is stopped", awaitLedger(t, worker, injected))
		sendSignal(t, plugin, syscall.SIGCONT)
		rig.RequireCountersNeverFall(t, awaitCounted(r, injected))
		requireSmall(t, "a storm while the plugin is stopped", ours)
	})
}

// requireTerminates ends the plugin while Telegraf is stopped in a storm.
func requireTerminates(t *testing.T, r *rig.Telegraf, ours []int) {
	t.Helper()
	s := startStorm(t)
	stopProcess(t, r.PID())
	awaitFull(t, ours[0])
	began := time.Now()
	sendSignal(t, ours[0], syscall.SIGTERM)
	guest.Eventually(t, "the plugin has ended", 30*time.Second, func() bool { return !rig.Running(ours[0]) })
	requireShutdown(t, "while Telegraf is stopped in a storm", time.Since(began), ours)
	s.end()
	sendSignal(t, r.PID(), syscall.SIGCONT)
	r.Stop()
}

// storm injects events of many types as fast as the kernel accepts them. There are
// so many types that within a few seconds the plugin writes more lines than fit into
// a pipe.
type storm struct {
	t        *testing.T
	quit     chan struct{}
	done     chan struct{}
	injected map[int]int64 // by number; complete once done is closed
	err      error
}

func stormTypes() []int {
	types := []int{guest.LIDChange, guest.PKeyChange, guest.SMChange, guest.ClientReregister}
	for n := 21; n < 33; n++ {
		types = append(types, n)
	}
	return types
}

// startStorm injects events until end. The test must call end.
func startStorm(t *testing.T) *storm {
	t.Helper()
	guest.Inject(t, device, guest.PKeyChange, 1, 0) // loads the injector, or fails the test
	s := &storm{t: t, quit: make(chan struct{}), done: make(chan struct{}), injected: map[int]int64{}}
	go s.run()
	return s
}

func (s *storm) run() {
	const burst = 250
	defer close(s.done)
	for {
		for _, n := range stormTypes() {
			select {
			case <-s.quit:
				return
			default:
			}
			if s.err = guest.TryInject(s.t, device, n, 1, burst); s.err != nil {
				return
			}
			s.injected[n] += burst
		}
	}
}

// end stops the storm and returns how many events it injected, by the number of
// their type.
func (s *storm) end() map[int]int64 {
	s.t.Helper()
	close(s.quit)
	<-s.done
	if s.err != nil {
		s.t.Fatal(s.err)
	}
	return s.injected
}

// eventsRead returns the number of events of all types that a worker has read.
func eventsRead(s ledger.Contents) int64 {
	var sum uint64
	for _, e := range s.Events {
		sum += e.Read
	}
	return int64(sum)
}

// awaitLedger waits until a worker has read and acknowledged all injected events,
// and returns their number.
func awaitLedger(t *testing.T, worker int, injected map[int]int64) int64 {
	t.Helper()
	var s ledger.Contents
	guest.Eventually(t, "all events are read and acknowledged", 20*time.Second, func() bool {
		s = ledgerOf(t, worker)
		matches := 0
		for _, e := range s.Events {
			if n := injected[int(e.Type)]; n > 0 && int64(e.Read) == n && int64(e.Acked) == n {
				matches++
			}
		}
		return matches == len(injected)
	})
	return eventsRead(s)
}

// awaitCounted waits until counters and sums of count equal the injected numbers.
func awaitCounted(r *rig.Telegraf, injected map[int]int64) []rig.Point {
	return r.Await("counters and sums of count", 60*time.Second, func(p []rig.Point) bool {
		for number, want := range injected {
			name, port := eventName(number)
			if eventCounter(p, port, name) != want || eventSum(p, device, name) != want {
				return false
			}
		}
		return true
	})
}

// eventName returns the name of a type of stormTypes, and the tag port of its
// series.
func eventName(number int) (name, port string) {
	switch number {
	case guest.LIDChange:
		return "lid_change", "1"
	case guest.PKeyChange:
		return "pkey_change", "1"
	case guest.SMChange:
		return "sm_change", "1"
	case guest.ClientReregister:
		return "client_reregister", "1"
	}
	return "unknown_" + strconv.Itoa(number), ""
}

// stopProcess stops a process until the test continues it, or ends.
func stopProcess(t *testing.T, pid int) {
	t.Helper()
	sendSignal(t, pid, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // it may have ended
}

func sendSignal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("send %v to process %d: %v", s, pid, err)
	}
}

func awaitFull(t *testing.T, plugin int) {
	t.Helper()
	began := time.Now()
	guest.Eventually(t, "stdout is full", 20*time.Second, func() bool { return rig.IsFull(t, plugin, 1) })
	t.Logf("stdout full after %v", time.Since(began).Round(time.Millisecond))
}

// requireSmall requires that the sum of the peak memory of all processes is below
// memoryLimit.
func requireSmall(t *testing.T, what string, pids []int) {
	t.Helper()
	var sum int64
	for _, pid := range pids {
		sum += rig.Memory(t, pid, "VmHWM")
	}
	t.Logf("%s, peak memory of plugin and worker: %.1f MiB", what, mib(sum))
	if sum >= memoryLimit {
		t.Errorf("%s: want plugin and worker below %.0f MiB together, got %.1f", what, mib(memoryLimit), mib(sum))
	}
}

// requireShutdown requires that a shutdown took at most ten times shutdown_timeout, because the machine is emulated,
// and that no process is left.
func requireShutdown(t *testing.T, state string, took time.Duration, pids []int) {
	t.Helper()
	const promised = 3 * time.Second
	t.Logf("shutdown %s: %v", state, took.Round(time.Millisecond))
	if took > 10*promised {
		t.Errorf("shutdown %s: want it within ten times %v, got %v", state, promised, took)
	}
	for _, pid := range pids {
		if rig.Running(pid) {
			t.Errorf("shutdown %s: process %d is left", state, pid)
		}
	}
}
