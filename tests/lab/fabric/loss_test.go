//go:build guest

package fabric

import (
	"slices"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// enough lost probes and echoes for a share of them.
const enough = 500

// TestLossIsCountedInItsDirection loses probes, then echoes, then both with all else, and compares what the plugins count with what
// the kernel has dropped.
func TestLossIsCountedInItsDirection(t *testing.T) {
	f := startFleet(t, plan{})
	goal := int64(enough)
	if testing.Short() {
		goal = 60
	}
	var lost, wrong int64
	for _, phase := range []struct {
		name  string
		share float64
		kinds []guest.Kind
	}{
		{"probes alone", 0.3, []guest.Kind{guest.Probes}},
		{"echoes alone", 0.3, []guest.Kind{guest.Echoes}},
		{"all packets", 0.15, guest.RoCE},
	} {
		l, w := f.lose(phase.name, phase.share, goal/3+1, phase.kinds)
		lost, wrong = lost+l, wrong+w
	}
	t.Logf("of %d lost packets %d are in the wrong direction or in none", lost, wrong)
	if lost < goal || 100*wrong > lost {
		t.Errorf("want at least %d lost and at most one in 100 wrong, got %d and %d", goal, lost, wrong)
	}
}

// lose loses packets on the ways of all hosts to their leaves until so many probes and echoes are lost. It returns how many were,
// and how many the plugins count otherwise.
func (f *fleet) lose(what string, share float64, goal int64, kinds []guest.Kind) (lost, wrong int64) {
	f.t.Helper()
	f.settleProbes()
	forward, reverse, other := f.sum("forward_lost"), f.sum("reverse_lost"), f.sum("busy_lost")+f.sum("unknown_lost")
	probes, echoes := f.net.Dropped(guest.Probes), f.net.Dropped(guest.Echoes)
	for i := 1; i <= f.net.Hosts(); i++ {
		f.net.Lose(f.net.From(i), share, kinds...)
	}
	for dropped := int64(0); dropped < goal; {
		pauseTest(f.t, 2*time.Second)
		dropped = f.net.Dropped(guest.Probes) + f.net.Dropped(guest.Echoes) - probes - echoes
	}
	f.net.Heal()
	f.settleProbes()
	probes, echoes = f.net.Dropped(guest.Probes)-probes, f.net.Dropped(guest.Echoes)-echoes
	forward, reverse = f.sum("forward_lost")-forward, f.sum("reverse_lost")-reverse
	other = f.sum("busy_lost") + f.sum("unknown_lost") - other
	f.t.Logf("%s: the kernel has dropped %d probes and %d echoes; counted are %d forward, %d reverse and %d as neither", what, probes, echoes,
		forward, reverse, other)
	return probes + echoes, max(abs(probes-forward), abs(echoes-reverse))
}

func abs(n int64) int64 { return max(n, -n) }

// settleProbes waits until nothing that was lost is pending: an echo has come on each path of each pair since.
func (f *fleet) settleProbes() {
	f.t.Helper()
	before := f.sum("answered")
	deadline := time.Now().Add(time.Minute)
	for f.sum("answered")-before < int64(4*paths*len(f.pairs)) || f.sum("pending") > int64(len(f.pairs)) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%d probes are pending a minute after the last was lost", f.sum("pending"))
		}
		pauseTest(f.t, time.Second)
	}
}

// TestLossOfAPartIsSaidWithItsDirection loses a tenth of what goes to one host, of what comes from another and of both of a third.
func TestLossOfAPartIsSaidWithItsDirection(t *testing.T) {
	f := startFleet(t, plan{})
	const share = 0.1
	began := time.Now()
	f.net.Lose(f.net.To(1), share, guest.RoCE...)
	f.net.Lose(f.net.From(3), share, guest.RoCE...)
	f.net.Lose(f.net.To(5), share, guest.RoCE...)
	f.net.Lose(f.net.From(5), share, guest.RoCE...)
	want := map[pair]string{}
	for _, p := range f.pairs {
		if v := f.lossy(p, []guest.Place{f.net.To(1), f.net.From(3), f.net.To(5), f.net.From(5)}); v != "" {
			want[p] = v
		}
	}
	// The ports of these hosts have five pairs. Once four of them are bad, all say that it is the port's own link, each with the
	// direction of its loss.
	ownLink := func(p pair, verdict string) bool {
		return verdict == "own_link" && (p.from == 1 || p.from == 3 || p.from == 5)
	}
	f.await("lossy in the direction of the loss", began, 5*time.Minute, func(p pair) bool { return want[p] != "" }, func(s said) bool {
		p := pair{numberOf(s.by), numberOf(s.of)}
		return s.verdict == want[p] || ownLink(p, s.verdict) && s.Text("direction") == directions[want[p]]
	})
	t.Logf("all %d verdicts have come after %v", len(want), time.Since(began).Round(time.Second))
	for _, s := range f.since(began) {
		p := pair{numberOf(s.by), numberOf(s.of)}
		if ownLink(p, s.verdict) && !s.bad && s.Text("direction") != "" {
			continue
		}
		if direction := directions[s.verdict]; s.bad && want[p] == "" || s.Text("direction") != direction {
			t.Errorf("%v, which is to be %q: %v", p, want[p], s.Fields)
		}
	}
	f.net.Heal()
	healed := time.Now()
	well := f.awaitVerdict("ok", healed, 5*time.Minute, func(p pair) bool { return want[p] != "" })
	t.Logf("well %v to %v after the loss", elapsedBetween(healed, earliestOf(well)), elapsedBetween(healed, latestOf(well)))
	if early := earliestOf(well).Sub(healed); early < 30*time.Second {
		t.Errorf("a pair is well %v after the loss, want a minute with next to none", early)
	}
}

var directions = map[string]string{"lossy_forward": "forward", "lossy_reverse": "reverse", "lossy_both": "both"}

// lossy returns the verdict on a pair while places lose packets.
func (f *fleet) lossy(p pair, places []guest.Place) string {
	lossy := func(way []guest.Place) bool {
		return slices.ContainsFunc(way, func(at guest.Place) bool { return slices.Contains(places, at) })
	}
	forward, reverse := f.ways(p)
	switch {
	case lossy(forward) && lossy(reverse):
		return "lossy_both"
	case lossy(forward):
		return "lossy_forward"
	case lossy(reverse):
		return "lossy_reverse"
	}
	return ""
}
