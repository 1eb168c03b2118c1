//go:build guest

package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/fabric/rpingmesh"
	"rdma_events/tests/lab/guest"
)

// The promises of a severed link: until the first verdict, until that of the last observer, and how long a pair has to be well
// before it is said to be.
const (
	firstVerdict = 500 * time.Millisecond
	lastVerdict  = time.Second
	wellFor      = 5 * time.Second
)

// cut is a way to sever a network.
type cut struct {
	name   string
	host   int // whose link it is, 0 for a cut of the spine
	places []guest.Place
}

// cutKinds returns one cut of each kind. Each round cuts off another host.
func cutKinds(n *guest.Network, round int) []cut {
	host := round%n.Hosts() + 1
	return []cut{
		{fmt.Sprintf("the link of h%d, both ways", host), host, []guest.Place{n.From(host), n.To(host)}},
		{"the spine, both ways", 0, []guest.Place{guest.Spine(1), guest.Spine(2)}},
		{fmt.Sprintf("what goes to h%d", host), host, []guest.Place{n.To(host)}},
		{fmt.Sprintf("what comes from h%d", host), host, []guest.Place{n.From(host)}},
		{"the spine, from the first leaf", 0, []guest.Place{guest.Spine(1)}},
	}
}

// TestASeveredWayIsSeenByAllWhoUseIt cuts a network without a word to any device: the ports stay active.
func TestASeveredWayIsSeenByAllWhoUseIt(t *testing.T) {
	hosts, count := 6, 20
	if testing.Short() {
		hosts, count = 4, 2
	}
	f := startFleet(t, plan{hosts: hosts})
	beside, began := startFormula(f), time.Now()
	var firsts, lasts []time.Duration
	for again := 0; len(firsts) < count; {
		restarts := f.restarts()
		kinds := cutKinds(f.net, len(firsts))
		c := kinds[len(firsts)%len(kinds)]
		first, last, wrong := f.sever(c)
		// A busy machine can be too slow for the plugin, which replaces a worker then. Its pairs begin anew.
		if n := f.restarts() - restarts; n > 0 && again < count/4+1 {
			again++
			t.Logf("%s: %d workers were replaced meanwhile, and it is tried again; said was: %v", c.name, n, wrong)
			continue
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", c.name, w)
		}
		firsts, lasts = append(firsts, first), append(lasts, last)
	}
	t.Logf("%d cuts: first verdict %s, last observer %s", count, durationSpread(firsts), durationSpread(lasts))
	// Without a threshold it judges by what timed out alone.
	t.Logf("R-Pingmesh's formula, of the same packets, speaks once in %v, and blames the network by probes that timed out: %v",
		rpingmesh.Period, blameCounts(beside.judge(began, time.Now(), time.Hour)))
	checkDuration(t, "the first verdict, at most", slices.Max(firsts), firstVerdict)
	checkDuration(t, "the last observer, at most", slices.Max(lasts), lastVerdict)
}

// restarts returns how often a worker was replaced, of all plugins that run.
func (f *fleet) restarts() (n int64) {
	for _, h := range f.hosts[1:] {
		n += h.restarts()
	}
	return n
}

// restarts returns how often the worker was replaced, in this life of the plugin.
func (h *host) restarts() int64 { return max(h.point("rdma_device").Int("worker_restarts"), 0) }

// sever cuts, waits until all pairs that pass the cut have the verdict path, heals and waits until all are well. It returns how
// long the first and the last verdict took, and what was said that should not have been. The pairs of a host whose own link is cut
// may say own_link instead, as they do where the host has enough of them.
//
// sever lets two intervals pass before it cuts: a pair that has recovered is listed in one more of them.
func (f *fleet) sever(c cut) (first, last time.Duration, wrong []string) {
	f.t.Helper()
	severed := func(p pair) bool { return f.passes(p, c.places) }
	f.settle(2)
	began := f.net.Cut(c.places...)
	found := f.await("the verdict path", began, 20*lastVerdict, severed, func(s said) bool {
		return s.verdict == "path" || s.verdict == "own_link" && s.by == hostName(c.host)
	})
	first, last = earliestOf(found).Sub(began), latestOf(found).Sub(began)
	f.net.Heal()
	healed := time.Now()
	well := f.awaitVerdict("ok", began, 2*time.Minute, severed)
	f.t.Logf("%s: %d pairs; first verdict after %v, last after %v; well %v to %v after", c.name, len(found), round(first), round(last),
		round(earliestOf(well).Sub(healed)), round(latestOf(well).Sub(healed)))
	if early := earliestOf(well).Sub(healed); early < wellFor-time.Second/2 {
		wrong = append(wrong, fmt.Sprintf("a pair is said to be well %v after, want at least %v of answers", early, wellFor))
	}
	return first, last, append(wrong, f.others(began, "path", c.host, severed)...)
}

// others returns what was said since a moment of pairs other than those for which of returns true, and of those other than the
// verdict and then ok. own_link counts as the verdict path in what the host says whose link it is; no host has the number 0.
// peer_down may come before path: on a busy machine the process of the peer answers late.
func (f *fleet) others(since time.Time, verdict string, host int, of func(pair) bool) (wrong []string) {
	for _, p := range f.pairs {
		said := f.turns(p, since)
		for i := range said {
			if said[i] == "own_link" && p.from == host && verdict == "path" {
				said[i] = verdict
			}
		}
		said = slices.Compact(said)
		if of(p) && len(said) == 3 && said[0] == "peer_down" && verdict == "path" {
			f.t.Logf("%v: the peer's process answered late", p)
			said = said[1:]
		}
		if of(p) && slices.Equal(said, []string{verdict, "ok"}) || !of(p) && len(said) == 0 {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("of %v was said: %v", p, said))
	}
	return wrong
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// durationSpread returns the shortest, the median and the longest of some durations as text.
func durationSpread(d []time.Duration) string {
	sorted := slices.Sorted(slices.Values(d))
	var all []string
	for _, i := range []int{0, len(sorted) / 2, len(sorted) - 1} {
		all = append(all, round(sorted[i]).String())
	}
	return strings.Join(all, ", ")
}
