//go:build guest

package fabric

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// truth is what really was wrong, and when. It says which verdicts are right.
type truth struct {
	began    time.Time
	restarts []int64 // of the worker of each host, by then

	silent   []spell // no packet of RDMA comes back: the way there or back is cut
	unheard  []spell // TCP between the hosts of the pair is cut, or refused
	hardly   []spell // it is slow, or was reset
	ended    []spell // the plugin or worker of one of the hosts does not run
	answered []spell // as ended, of the plugin of the host that is probed: nothing of it answers
}

// observe begins a truth in which nothing is wrong yet.
func (f *fleet) observe() *truth {
	tr := &truth{began: time.Now(), restarts: make([]int64, len(f.hosts))}
	for i, h := range f.hosts[1:] {
		tr.restarts[i+1] = h.restarts()
	}
	return tr
}

// noteRestarts adds the workers that were replaced since the beginning. A busy machine can be too slow for a worker: its plugin replaces it
// then, and its pairs begin anew.
func (tr *truth) noteRestarts(f *fleet) {
	f.t.Helper()
	for i, h := range f.hosts[1:] {
		if now := h.restarts(); now > tr.restarts[i+1] {
			f.t.Logf("the worker of %s was replaced", h.name)
			tr.restarts[i+1] = now
			tr.ended = append(tr.ended, spell{from: tr.began, concerns: withHost(h.number)})
		}
	}
}

// spell is a time for which a fault lasts, and the pairs that it concerns. A zero to is a fault that lasts.
type spell struct {
	from, to time.Time
	concerns func(pair) bool
}

// during reports whether a fault concerned a pair at a moment, or had ended less than holds before.
func (s spell) during(p pair, at time.Time, holds time.Duration) bool {
	return s.concerns(p) && at.After(s.from) && (s.to.IsZero() || at.Before(s.to.Add(holds)))
}

func anyFaultDuring(all []spell, p pair, at time.Time, holds time.Duration) bool {
	return slices.ContainsFunc(all, func(s spell) bool { return s.during(p, at, holds) })
}

// beginFault adds a fault, which lasts until the returned function is called.
func beginFault(all *[]spell, concerns func(pair) bool) (end func()) {
	i := len(*all)
	*all = append(*all, spell{from: time.Now(), concerns: concerns})
	return func() { (*all)[i].to = time.Now() }
}

// How long what is said may differ from what is true. A pair has to be well for wellFor, and an emulated machine is slow, hence ten
// times the promised times; hosts that did not reach each other by TCP try again after a minute at the latest.
const (
	noticedWithin = 10 * lastVerdict
	mendedWithin  = 4 * wellFor
	metWithin     = 90 * time.Second
)

// wrongly returns why a verdict that was said is wrong, "" if it is right. The rules:
//
//   - A verdict that blames the network or the own link needs a pair whose way is cut, and a peer whose process was heard since
//     then: who cannot ask it does not know whether the host is off.
//   - peer_down needs a pair of which nothing comes back: its way is cut, or its processes have ended. It holds until the hosts have
//     talked again, since the queue pairs are connected anew by TCP.
//   - ok is wrong while nothing comes back.
//   - A pair is met again, and has a reason not to, only after it has been silent.
//   - peer_busy is never wrong here: an emulated machine is busy.
func (tr *truth) wrongly(s said) string {
	p := pair{numberOf(s.by), numberOf(s.of)}
	holds := mendedWithin
	if anyFaultDuring(tr.unheard, p, s.came, metWithin) || anyFaultDuring(tr.hardly, p, s.came, metWithin) {
		holds = metWithin
	}
	silent := anyFaultDuring(tr.silent, p, s.came, holds)
	ended := anyFaultDuring(tr.ended, p, s.came, metWithin)
	reason := s.Text("reason")
	switch {
	case s.bad || slices.Contains(networkVerdicts, s.verdict) || s.verdict == "own_link":
		switch {
		case !anyFaultDuring(tr.silent, p, s.came, mendedWithin):
			return "blames a network that is whole"
		case s.verdict != "path" && s.verdict != "own_link":
			return "is silent, and not in part"
		case tr.cannotKnow(p, s.came):
			return "blames the network though the host cannot be asked"
		}
	case s.verdict == "peer_down":
		if !silent && !ended {
			return "is up"
		}
	case s.verdict == "ok":
		if tr.hasBeenSilent(p, s.came, 2*time.Second) {
			return "is silent"
		}
	case s.verdict == "starting" || reason != "":
		if !silent && !ended {
			return "has never been silent"
		}
	case s.verdict != "peer_busy":
		return "has an active port"
	}
	return ""
}

// hasBeenSilent reports whether a pair has been silent for a while at a moment.
func (tr *truth) hasBeenSilent(p pair, at time.Time, lasting time.Duration) bool {
	return slices.ContainsFunc(slices.Concat(tr.silent, tr.answered), func(s spell) bool {
		return s.during(p, at, 0) && at.Sub(s.from) > lasting
	})
}

// cannotKnow reports whether the hosts of a silent pair could not talk from before its silence to a moment.
func (tr *truth) cannotKnow(p pair, at time.Time) bool {
	known := func(silence spell) bool {
		return !slices.ContainsFunc(tr.unheard, func(u spell) bool {
			return u.concerns(p) && u.from.Before(silence.from) && (u.to.IsZero() || u.to.After(at))
		})
	}
	return !slices.ContainsFunc(tr.silent, func(s spell) bool { return s.during(p, at, mendedWithin) && known(s) })
}

// judgeBy fails the test for each thing said since the beginning of a truth that is wrong.
func (f *fleet) judgeBy(tr *truth) {
	f.t.Helper()
	tr.noteRestarts(f)
	since := tr.began
	wrong := map[string]int{}
	for _, s := range f.since(since) {
		if why := tr.wrongly(s); why != "" {
			what := fmt.Sprintf("%s says of %s %s%s, which %s", s.by, s.of, s.verdict, s.Text("reason"), why)
			if wrong[what]++; wrong[what] == 1 {
				f.t.Errorf("%s, after %v: %v", what, elapsedBetween(since, s.came), s.Fields)
			}
		}
	}
	for what, times := range wrong {
		if times > 1 {
			f.t.Errorf("%s: %d times", what, times)
		}
	}
	if len(wrong) > 0 {
		var history []string
		for _, p := range f.pairs {
			history = append(history, fmt.Sprintf("%v: %v", p, f.turns(p, since)))
		}
		f.t.Logf("said was:\n%s", strings.Join(history, "\n"))
	}
}
