//go:build guest

package inguest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// dropsPerTurn gives more than 200 drops in all turns.
const dropsPerTurn = 29

// The numbers of these events in infiniband/verbs.h.
const (
	portActive = 9
	portErr    = 10
)

// TestDrops takes a link down for 5 to 500 ms at a time. The plugin under
// Telegraf, the C loop and readers of the state in sysfs watch it at the same
// time.
func TestDrops(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	r := startProbing(t)
	c := startProcess(t, programPath(t, "ASYNCDRAIN_BIN"), device)
	c.await("ready")
	every1s, every10s := pollState(t, time.Second), pollState(t, 10*time.Second)

	random := rand.New(rand.NewPCG(1, 2)) // the same drops in each run
	found := bench.Figure{
		Section: "Link drops of 5 to 500 ms, random", What: "drops found", Unit: "of 29", OtherIs: "C loop",
		Bound: 1, AtLeast: true,
	}
	good := bench.Figure{
		Section: found.Section, What: "durations within 2 ms plus 5 %", Unit: "%", Bound: 95, AtLeast: true,
	}
	off := bench.Figure{Section: found.Section, What: "error of the duration, p95", Unit: "ms", OtherIs: "C loop"}
	seen1, seen10 := found, found
	seen1.OtherIs, seen1.Bound, seen1.What = "sysfs state read every second", 0, "drops found, against a reader of sysfs"
	seen10.OtherIs, seen10.Bound, seen10.What = "sysfs state read every 10 s", 0, "drops found, against another one"
	reported := 0
	for range turns {
		before1, before10 := every1s.sightings(), every10s.sightings()
		want := dropLink(t, random)
		r.Await("all drops", time.Minute, func([]rig.Point) bool { return len(downDurations(r)) >= reported+dropsPerTurn })
		ours := downDurations(r)[reported:]
		reported += len(ours)
		theirs := c.durations(dropsPerTurn)
		oursOff, theirsOff := errorsOf(ours, want), errorsOf(theirs, want)
		found.Ours, found.Other = append(found.Ours, float64(len(ours))), append(found.Other, float64(len(theirs)))
		good.Ours = append(good.Ours, accurateShare(ours, want))
		off.Ours, off.Other = append(off.Ours, quantile(oursOff, .95)), append(off.Other, quantile(theirsOff, .95))
		seen1.Ours, seen1.Other = append(seen1.Ours, float64(len(ours))), append(seen1.Other, float64(every1s.sightings()-before1))
		seen10.Ours, seen10.Other = append(seen10.Ours, float64(len(ours))), append(seen10.Other, float64(every10s.sightings()-before10))
	}
	c.stop(true)
	addFigures(found, good, off, seen1, seen10)
}

// dropLink takes the link down dropsPerTurn times and returns each downtime in ms, measured with the timestamps of the program that
// changed the link.
func dropLink(t *testing.T, random *rand.Rand) []float64 {
	t.Helper()
	var want []float64
	for range dropsPerTurn {
		down := 5*time.Millisecond + time.Duration(random.Int64N(int64(495*time.Millisecond)))
		stamps, err := guest.FlapLink(t.Context(), netdev, guest.Flaps{Count: 1, Down: down, Period: down})
		if err != nil {
			t.Fatal(err)
		}
		middle := func(c guest.LinkChange) int64 { return (c.Before + c.After) / 2 }
		want = append(want, float64(middle(stamps[1])-middle(stamps[0]))/1e6)
		<-time.After(100*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond))))
	}
	return want
}

// downDurations returns the downtimes of the port in ms, as the plugin reports them.
func downDurations(r *rig.Telegraf) []float64 {
	var all []float64
	for _, p := range rig.Select(r.Points(), "rdma_port_change", "state_to", "active") {
		if p.Int("lasted_ns") > 0 {
			all = append(all, float64(p.Int("lasted_ns"))/1e6)
		}
	}
	return all
}

// durations reads count drops from the C loop's output and returns how long each
// of them lasted, in ms.
func (p *process) durations(count int) []float64 {
	p.t.Helper()
	var all []float64
	var since int64
	for len(all) < count {
		var event, port int
		var at int64
		text := p.await(" ").text
		if _, err := fmt.Sscan(text, &event, &port, &at); err != nil {
			p.t.Fatalf("parse %q: %v", text, err)
		}
		switch {
		case event == portErr:
			since = at
		case event == portActive && since != 0:
			all = append(all, float64(at-since)/1e6)
			since = 0
		}
	}
	return all
}

func errorsOf(got, want []float64) []float64 {
	var off []float64
	for i := range min(len(got), len(want)) {
		off = append(off, max(got[i]-want[i], want[i]-got[i]))
	}
	return off
}

// accurateShare returns the percentage of durations with an error of at most 2 ms plus 5 %.
func accurateShare(got, want []float64) float64 {
	good := 0
	for i, off := range errorsOf(got, want) {
		if off <= 2+want[i]/20 {
			good++
		}
	}
	return 100 * float64(good) / float64(len(want))
}

// poller does what many monitors do: it reads the port's state at intervals.
type poller struct {
	mu    sync.Mutex
	drops int
}

func pollState(t *testing.T, every time.Duration) *poller {
	t.Helper()
	p := &poller{}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.run(ctx, every) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return p
}

func (p *poller) run(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	wasUp := true
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		text, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/state")
		up := err == nil && strings.Contains(string(text), "ACTIVE")
		if wasUp && !up {
			p.mu.Lock()
			p.drops++
			p.mu.Unlock()
		}
		wasUp = up
	}
}

func (p *poller) sightings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

// startProbing starts a Telegraf that gathers every second, and returns when the
// plugin has reported a round.
func startProbing(t *testing.T) *rig.Telegraf {
	t.Helper()
	r := rig.Start(t, rig.Config{Plugin: probeConfig(verbs.MethodUDSend, time.Second, time.Minute)})
	r.Await("a round", 2*time.Minute, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_cq_probe", "method", "ud_send").Int("rounds") >= 1
	})
	return r
}
