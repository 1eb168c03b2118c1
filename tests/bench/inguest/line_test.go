//go:build guest

package inguest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// events is the number of events that are injected one at a time, and apart the
// time between two of them.
const (
	events = 300
	apart  = 20 * time.Millisecond
)

func TestEventToLine(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	f := bench.Figure{Section: "Asynchronous events", Unit: "us", OtherIs: "ibv_asyncwatch, line buffered"}
	p50, p99 := f, f
	p50.What, p50.Bound, p50.BusyBound = "an event's cause to its line on stdout, p50", 1.3, 1.6
	p50.Missed = "ibv_asyncwatch is one process; here the worker wakes the plugin, which wakes the reader of the line"
	p99.What = "the same, p99"
	read := bench.Figure{Section: f.Section, Unit: "ms", What: "event read to its line on stdout, p99", Bound: 3,
		Missed: "the slowest events are those beside which the worker queries the port and takes a snapshot"}
	timeSlices := bench.Figure{Section: f.Section, Unit: "per event", What: "time slices of all threads", OtherIs: f.OtherIs}
	wakeUps := timeSlices
	wakeUps.What, timeSlices.Bound = "wake-ups of all threads", 12
	var waits []waits
	wakeUps.Note = fmt.Sprintf("%d events, %v apart; with what the processes do besides in that time", events, apart)
	for i := range turns {
		var ours, other lines
		inTurn(i, func() { ours = pluginLines(t) }, func() { other = watchLines(t) })
		p50.Ours, p50.Other = append(p50.Ours, quantile(ours.whole, .5)), append(p50.Other, quantile(other.whole, .5))
		p99.Ours, p99.Other = append(p99.Ours, quantile(ours.whole, .99)), append(p99.Other, quantile(other.whole, .99))
		read.Ours = append(read.Ours, quantile(ours.sinceRead, .99)/1e3)
		timeSlices.Ours, timeSlices.Other = append(timeSlices.Ours, ours.Slices), append(timeSlices.Other, other.Slices)
		wakeUps.Ours, wakeUps.Other = append(wakeUps.Ours, ours.WakeUps), append(wakeUps.Other, other.WakeUps)
		waits = append(waits, ours.waits)

		besideBusyCore(t, func() {
			inTurn(i, func() { ours = pluginLines(t) }, func() { other = watchLines(t) })
		})
		p50.BusyOurs, p50.BusyOther = append(p50.BusyOurs, quantile(ours.whole, .5)), append(p50.BusyOther, quantile(other.whole, .5))
		p99.BusyOurs, p99.BusyOther = append(p99.BusyOurs, quantile(ours.whole, .99)), append(p99.BusyOther, quantile(other.whole, .99))
		read.BusyOurs = append(read.BusyOurs, quantile(ours.sinceRead, .99)/1e3)
	}
	read.Note = "by the timestamp in the line, which is when the event was read"
	timeSlices.Missed = "wake-ups an event of the last turn: " + waits[len(waits)-1].String()
	addFigures(p50, p99, read, timeSlices, wakeUps)
}

// lines is what the lines of a program about events one at a time cost.
type lines struct {
	whole          []float64 // us from the injection of each event to its line
	sinceRead      []float64 // us from the read of the event to its line, for the plugin only
	bench.Switches           // per event
	waits                    // per event, of the plugin only
}

// waits has the wake-ups of the plugin's process and of its worker, by what their threads wait for.
type waits struct{ host, worker map[string]float64 }

func (w waits) String() string {
	var parts []string
	for _, p := range []struct {
		name string
		of   map[string]float64
	}{{"plugin", w.host}, {"worker", w.worker}} {
		for _, what := range slices.Sorted(maps.Keys(p.of)) {
			parts = append(parts, fmt.Sprintf("%s %.1f (%s)", p.name, p.of[what], what))
		}
	}
	return strings.Join(parts, ", ")
}

func waitsOf(t *testing.T, host int, workers []int) (w waits) {
	t.Helper()
	var err, errWorkers error
	w.host, err = bench.ThreadWakeUps([]int{host})
	w.worker, errWorkers = bench.ThreadWakeUps(workers)
	if err := errors.Join(err, errWorkers); err != nil {
		t.Fatal(err)
	}
	return w
}

// since returns the wake-ups since before, per event.
func (w waits) since(before waits) waits {
	for _, p := range []struct{ now, then map[string]float64 }{{w.host, before.host}, {w.worker, before.worker}} {
		for what := range p.now {
			p.now[what] = (p.now[what] - p.then[what]) / events
		}
	}
	return w
}

func pluginLines(t *testing.T) (l lines) {
	t.Helper()
	p := startPlugin(t, `[[inputs.rdma_events]]
  max_event_points = 10000
  [inputs.rdma_events.probe]
    interval = "0s"
`)
	defer p.stop(false)
	p.await(",open=1i")
	workers := rig.Children(t, p.cmd.Process.Pid)
	pids := append([]int{p.cmd.Process.Pid}, workers...)
	before := waitsOf(t, p.cmd.Process.Pid, workers)
	l.Switches = injectEach(t, pids, func() (time.Time, string) {
		seen := p.await("rdma_async_event")
		return seen.at, seen.text
	}, func(injected, seen time.Time, text string) {
		points, err := rig.Parse([]byte(text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		l.whole = append(l.whole, float64(seen.Sub(injected).Nanoseconds())/1e3)
		l.sinceRead = append(l.sinceRead, float64(seen.UnixNano()-points[0].Time)/1e3)
	})
	l.waits = waitsOf(t, p.cmd.Process.Pid, workers).since(before)
	return l
}

// startPlugin runs the plugin without Telegraf. It gathers at each line on its
// standard input.
func startPlugin(t *testing.T, config string) *process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return startProcess(t, programPath(t, "RDMA_EVENTS_BIN"), "-config", path, "-poll_interval_disabled")
}

func watchLines(t *testing.T) (l lines) {
	t.Helper()
	p := startProcess(t, "stdbuf", "-oL", "ibv_asyncwatch", "-d", device)
	defer p.stop(true)
	p.await("async event FD")
	l.Switches = injectEach(t, []int{p.cmd.Process.Pid}, func() (time.Time, string) {
		seen := p.await("event_type")
		return seen.at, seen.text
	}, func(injected, seen time.Time, _ string) {
		l.whole = append(l.whole, float64(seen.Sub(injected).Nanoseconds())/1e3)
	})
	return l
}

// injectEach injects the events one at a time, and returns how often the threads of pids
// were switched to for each.
func injectEach(t *testing.T, pids []int, await func() (time.Time, string),
	took func(injected, seen time.Time, text string),
) bench.Switches {
	t.Helper()
	before := countSwitches(t, pids)
	pace := time.NewTicker(apart)
	defer pace.Stop()
	for range events {
		<-pace.C
		injected := time.Now()
		guest.Inject(t, device, guest.PKeyChange, 1, 1)
		seen, text := await()
		took(injected, seen, text)
	}
	after := countSwitches(t, pids)
	return bench.Switches{
		Slices:  (after.Slices - before.Slices) / events,
		WakeUps: (after.WakeUps - before.WakeUps) / events,
	}
}

func countSwitches(t *testing.T, pids []int) bench.Switches {
	t.Helper()
	s, err := bench.CountSwitches(pids)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// quantile returns the q-quantile of values by the nearest rank: the least of the
// values that a share q of them does not exceed.
func quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[max(int(math.Ceil(q*float64(len(s)))), 1)-1]
}

// hasOpen reports whether a process has a file open whose name contains name.
func hasOpen(pid int, name string) bool {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && strings.Contains(target, name)
	})
}
