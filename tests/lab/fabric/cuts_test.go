//go:build guest

package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	places []guest.Place
}

// cuts returns kinds of cuts, of a host each time another one.
func cuts(n *guest.Network, round int) []cut {
	host := round%n.Hosts() + 1
	return []cut{
		{fmt.Sprintf("the link of h%d, both ways", host), []guest.Place{n.From(host), n.To(host)}},
		{"the spine, both ways", []guest.Place{guest.Spine(1), guest.Spine(2)}},
		{fmt.Sprintf("what goes to h%d", host), []guest.Place{n.To(host)}},
		{fmt.Sprintf("what comes from h%d", host), []guest.Place{n.From(host)}},
		{"the spine, from the first leaf", []guest.Place{guest.Spine(1)}},
	}
}

// TestASeveredWayIsSeenByAllWhoUseIt cuts a network without a word to any device: the ports stay active.
func TestASeveredWayIsSeenByAllWhoUseIt(t *testing.T) {
	hosts, count := 6, 20
	if testing.Short() {
		hosts, count = 4, 2
	}
	f := startFleet(t, plan{hosts: hosts})
	var firsts, lasts []time.Duration
	for i := range count {
		kinds := cuts(f.net, i)
		first, last := f.sever(kinds[i%len(kinds)])
		firsts, lasts = append(firsts, first), append(lasts, last)
	}
	t.Logf("%d cuts: first verdict %s, last observer %s", count, spread(firsts), spread(lasts))
	within(t, "the first verdict, at most", slices.Max(firsts), firstVerdict)
	within(t, "the last observer, at most", slices.Max(lasts), lastVerdict)
}

// sever cuts, waits until all pairs that pass the cut have the verdict path, heals and waits until all are well. It returns how
// long the first and the last verdict took.
func (f *fleet) sever(c cut) (first, last time.Duration) {
	f.t.Helper()
	severed := func(p pair) bool { return f.passes(p, c.places) }
	began := f.net.Cut(c.places...)
	found := f.awaitVerdict("path", began, 20*lastVerdict, severed)
	first, last = earliestOf(found).Sub(began), latestOf(found).Sub(began)
	f.net.Heal()
	healed := time.Now()
	well := f.awaitVerdict("ok", began, 2*time.Minute, severed)
	f.t.Logf("%s: %d pairs; first verdict after %v, last after %v; well %v to %v after", c.name, len(found), round(first), round(last),
		round(earliestOf(well).Sub(healed)), round(latestOf(well).Sub(healed)))
	if early := earliestOf(well).Sub(healed); early < wellFor-time.Second/2 {
		f.t.Errorf("%s: a pair is said to be well %v after, want at least %v of answers", c.name, early, wellFor)
	}
	f.requireOnly(c.name, began, "path", severed)
	return first, last
}

// requireOnly requires that since a moment the pairs for which of returns true were said to have the verdict and then to be ok,
// and that nothing was said of others. It is no error that peer_down came first: on a busy machine the process of the peer may
// answer too late.
func (f *fleet) requireOnly(what string, since time.Time, verdict string, of func(pair) bool) {
	f.t.Helper()
	turns := map[pair][]string{}
	for _, s := range f.since(since) {
		p := pair{numberOf(s.by), numberOf(s.of)}
		if t := turns[p]; len(t) == 0 || t[len(t)-1] != s.verdict {
			turns[p] = append(t, s.verdict)
		}
	}
	for p, t := range turns {
		want := []string{"ok"}
		if of(p) {
			want = []string{verdict, "ok"}
		}
		if of(p) && t[0] == "peer_down" && verdict == "path" {
			f.t.Logf("%s: %v: the peer's process answered late", what, p)
			t = t[1:]
		}
		if !slices.Equal(t, want) {
			f.t.Errorf("%s: want of %v %v, got %v", what, p, want, t)
		}
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// spread prints the least, the median and the greatest of some durations.
func spread(d []time.Duration) string {
	sorted := slices.Sorted(slices.Values(d))
	var all []string
	for _, i := range []int{0, len(sorted) / 2, len(sorted) - 1} {
		all = append(all, round(sorted[i]).String())
	}
	return strings.Join(all, ", ")
}
