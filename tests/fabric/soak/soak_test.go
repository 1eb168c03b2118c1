package soak

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Uint64("soak.seeds", 10, "the test runs the seeds from 1 to this one")
	seed  = flag.Uint64("soak.seed", 0, "run this seed alone, and print what happens")
	only  = flag.String("soak.only", "", "plan only faults of these kinds, as in \"TCP cut,host off\"; a seed is another plan then")
)

// TestSoakBlamesNothingThatIsWell runs hosts whose connections, processes, workers, lists, keys and clocks fail. No host blames what
// is well, and six minutes after the last fault all pairs are ok.
func TestSoakBlamesNothingThatIsWell(t *testing.T) {
	first, last := uint64(1), *seeds
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newPlan(seed)
			synctest.Test(t, func(t *testing.T) { p.run(t) })
		})
	}
}

// run runs a plan in a bubble of its own.
func (p *plan) run(t *testing.T) {
	w := newWorld(t, p)
	for i, h := range p.hosts {
		if h.later {
			w.relistQuietly(p, hostName(i))
		}
	}
	for i, h := range p.hosts {
		if !h.later {
			w.hosts[i].present = true
			w.running.Go(func() { w.hosts[i].alone(w.hosts[i].start) })
		}
	}
	w.running.Wait()
	ended := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { w.sampleUntil(ended) })
	time.Sleep(startsWithout)
	w.runFaults(p)
	w.running.Wait()
	w.note("the last fault is over")
	w.watch(settledAfter, "six minutes after the last fault")
	w.watch(watchedAfter, "half an hour after the last fault")
	close(ended)
	sampling.Wait()
	for _, h := range w.hosts {
		w.running.Go(func() { h.alone(func() { h.end(killed) }) })
	}
	w.running.Wait()
	w.report(p)
}

// relistQuietly takes a host out of all lists before the hosts start.
func (w *world) relistQuietly(p *plan, host string) {
	for _, h := range w.hosts {
		w.lack(p, h, host, true)
	}
}

func (w *world) runFaults(p *plan) {
	for i := range p.faults {
		f := &p.faults[i]
		calm := f.calm || i > 0 && p.faults[i-1].calm
		if !f.beside || calm {
			w.running.Wait()
		}
		if calm {
			time.Sleep(settledAfter)
		}
		time.Sleep(f.gap)
		if w.hasFailed() {
			return
		}
		w.running.Go(func() { w.fail(p, f) })
	}
}

// watch lets time pass without a fault, after which all pairs are ok.
func (w *world) watch(lasting time.Duration, when string) {
	if w.hasFailed() {
		return
	}
	time.Sleep(lasting)
	w.checkSettled(when)
}

func (w *world) sampleUntil(ended <-chan struct{}) {
	tick := time.NewTicker(sampledEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			w.sample()
		}
	}
}

// report prints what happened if something was wrong, or if the seed was asked for.
func (w *world) report(p *plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) == 0 && *seed == 0 {
		return
	}
	var b strings.Builder
	for i, h := range p.hosts {
		fmt.Fprintf(&b, "%s: group %s, devices %v", hostName(i), h.group, h.devices)
		if h.former {
			b.WriteString(", of the former release")
		}
		if h.later {
			b.WriteString(", added later")
		}
		b.WriteString("\n")
	}
	for _, line := range w.journal {
		b.WriteString(line + "\n")
	}
	w.t.Logf("seed %d, certificates %v, %v simulated:\n%s", p.seed, p.certificates, time.Since(w.began).Round(time.Second), b.String())
	for _, wrong := range w.wrong {
		w.t.Error(wrong)
	}
	if len(w.wrong) > 0 {
		w.t.Logf("to repeat it: go test -count=1 -v ./tests/fabric/soak -soak.seed %d", p.seed)
	}
}
