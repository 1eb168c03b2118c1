//go:build guest

package fabric

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// TestSoakOfManagementNetwork lets the management network and the RDMA network fail at random, apart and together, while processes are
// killed. In each round a plan says what fails and when. Nothing that is said may be wrong, a cut of the RDMA network is named while the
// hosts can talk, and after each round all pairs are well again.
func TestSoakOfManagementNetwork(t *testing.T) {
	hosts, lasting := 6, 9*time.Minute
	if testing.Short() {
		hosts, lasting = 4, 70*time.Second
	}
	r := rand.New(rand.NewPCG(rig.Seed(t), 0))
	f := startFleet(t, plan{hosts: hosts, managed: true})
	var bag []soakRound
	happened := map[string]int{}
	for began := time.Now(); time.Since(began) < lasting; {
		if len(bag) == 0 {
			bag = soakRounds(r, hosts)
		}
		next := bag[0]
		bag = bag[1:]
		if !t.Run(next.String(), func(t *testing.T) { f.on(t).endure(next) }) {
			break // what follows would begin with what is wrong
		}
		for _, s := range next {
			happened[string(s.kind)]++
		}
	}
	t.Logf("rounds had: %v", happened)
	for _, kind := range []kindOfTrouble{cutOfAll, severed} {
		if happened[string(kind)] == 0 {
			t.Errorf("no round had %q", kind)
		}
	}
}

// kindOfTrouble says what fails.
type kindOfTrouble string

const (
	cutOfAll    kindOfTrouble = "TCP of all cut"
	cutOfOne    kindOfTrouble = "TCP of a host cut"
	cutOneWay   kindOfTrouble = "TCP to a host cut"
	unplugged   kindOfTrouble = "link of a host down for TCP"
	slow        kindOfTrouble = "TCP slow"
	refused     kindOfTrouble = "TCP refused between two hosts"
	reset       kindOfTrouble = "connections reset"
	severed     kindOfTrouble = "RDMA of a host cut"
	severedTo   kindOfTrouble = "RDMA to a host cut"
	severedFrom kindOfTrouble = "RDMA from a host cut"
	pluginDies  kindOfTrouble = "plugin killed"
	workerDies  kindOfTrouble = "worker killed"
)

// trouble is one thing that fails in a round.
type trouble struct {
	kind        kindOfTrouble
	host, other int           // other: with refused
	after       time.Duration // the beginning of the round
	lasting     time.Duration
	delay       time.Duration // with slow, of each direction
}

func (s trouble) String() string {
	text := string(s.kind)
	if s.host != 0 {
		text += fmt.Sprintf(" h%d", s.host)
	}
	if s.other != 0 {
		text += fmt.Sprintf(" h%d", s.other)
	}
	return text + fmt.Sprintf(" after %v for %v", s.after, s.lasting)
}

// soakRound is what fails at about the same time: at most one thing of each of the management network, the RDMA network and a process.
type soakRound []trouble

func (r soakRound) String() string {
	var all []string
	for _, s := range r {
		all = append(all, s.String())
	}
	return strings.Join(all, ", ")
}

// soakRounds returns a round for each kind of fault of the management network, half of them with a cut of the RDMA network, some with a process
// that dies, and two rounds without any of the management network. The first round has TCP of all hosts cut, and RDMA of one.
func soakRounds(r *rand.Rand, hosts int) (all []soakRound) {
	host := func() int { return r.IntN(hosts) + 1 }
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))).Round(time.Millisecond) }
	cutOf := func(kinds ...kindOfTrouble) trouble {
		return trouble{kind: kinds[r.IntN(len(kinds))], host: host(), after: upTo(5 * time.Second), lasting: noticedWithin + upTo(5*time.Second)}
	}
	anyCut := func() trouble { return cutOf(severed, severedTo, severedFrom) }
	death := func() trouble {
		kinds := []kindOfTrouble{pluginDies, workerDies}
		return trouble{kind: kinds[r.IntN(len(kinds))], host: host(), after: upTo(5 * time.Second), lasting: upTo(3 * time.Second)}
	}
	talk := func(kind kindOfTrouble) trouble {
		s := trouble{kind: kind, after: upTo(5 * time.Second), lasting: 2*time.Second + upTo(23*time.Second)}
		switch kind {
		case cutOfOne, cutOneWay, unplugged:
			s.host = host()
		case refused:
			s.host = host()
			s.other = s.host%hosts + 1
		case slow:
			s.delay = 50*time.Millisecond + upTo(950*time.Millisecond)
		case reset:
			s.lasting = 0
		}
		return s
	}
	for _, kind := range []kindOfTrouble{cutOfAll, cutOfOne, cutOneWay, unplugged, slow, refused, reset} {
		one := soakRound{talk(kind)}
		if r.IntN(2) == 0 {
			one = append(one, anyCut())
		} else if r.IntN(2) == 0 {
			one = append(one, death())
		}
		all = append(all, one)
	}
	all = append(all, soakRound{anyCut()}, soakRound{death()})
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return append([]soakRound{{talk(cutOfAll), cutOf(severed)}}, all...)
}

// endure has a round happen, waits until all is well and judges what was said.
func (f *fleet) endure(r soakRound) {
	f.t.Helper()
	tr := f.observe()
	type step struct {
		at time.Duration
		do func()
	}
	var steps []step
	for _, s := range r {
		var over func()
		steps = append(steps,
			step{s.after, func() { over = f.begin(tr, s) }},
			step{s.after + s.lasting, func() {
				f.requireNamed(tr, s)
				over()
			}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	for _, s := range steps {
		pauseTest(f.t, max(0, s.at-time.Since(tr.began)))
		s.do()
	}
	over := time.Now()
	for _, s := range r {
		if s.kind == pluginDies || s.kind == workerDies {
			f.awaitMet(s.host, tr.began.Add(s.after))
		}
	}
	f.awaitTalk()
	f.awaitWell(3*time.Minute, allPairs)
	f.t.Logf("all is well %v after the last fault", elapsedBetween(over, time.Now()))
	f.judgeBy(tr)
}

// begin has something fail, and returns what ends that.
func (f *fleet) begin(tr *truth, s trouble) (end func()) {
	f.t.Helper()
	// A fault of TCP is true once it has begun and until its end begins, one of RDMA and of a process the other way round.
	talk := func(fail func(), spells *[]spell, concerns func(pair) bool) func() {
		fail()
		over := beginFault(spells, concerns)
		return func() {
			over()
			f.management.Heal()
		}
	}
	sever := func(places ...guest.Place) func() {
		over := beginFault(&tr.silent, func(p pair) bool { return f.passes(p, places) })
		f.net.Cut(places...)
		return func() {
			f.net.Heal()
			over()
		}
	}
	m, n := f.management, f.net
	switch s.kind {
	case cutOfAll:
		return talk(m.CutAll, &tr.unheard, allPairs)
	case cutOfOne:
		return talk(func() { m.Cut(s.host) }, &tr.unheard, withHost(s.host))
	case cutOneWay:
		return talk(func() { m.CutTo(s.host) }, &tr.unheard, withHost(s.host))
	case unplugged:
		return talk(func() { m.Unplug(s.host) }, &tr.unheard, withHost(s.host))
	case refused:
		return talk(func() { f.refuse(s.host, s.other) }, &tr.unheard, betweenHosts(s.host, s.other))
	case slow:
		return talk(func() { m.Slow(s.delay) }, &tr.hardly, allPairs)
	case reset:
		return talk(func() { m.Reset(listensAt) }, &tr.hardly, allPairs)
	case severed:
		return sever(n.To(s.host), n.From(s.host))
	case severedTo:
		return sever(n.To(s.host))
	case severedFrom:
		return sever(n.From(s.host))
	case pluginDies:
		beginFault(&tr.ended, withHost(s.host)) // until its pairs are met again, whenever that is
		up := beginFault(&tr.answered, toHost(s.host))
		f.hosts[s.host].kill()
		return func() {
			up()
			f.hosts[s.host].start()
			f.hosts[s.host].awaitOpen()
		}
	case workerDies:
		h := f.hosts[s.host]
		before := h.restarts()
		beginFault(&tr.ended, withHost(s.host))
		f.signal(h.worker(), syscall.SIGKILL)
		return func() {
			guest.Eventually(f.t, "another worker of "+h.name, time.Minute, func() bool { return h.restarts() > before })
			h.awaitOpen()
		}
	}
	f.t.Fatalf("nobody knows how %q happens", s.kind)
	return nil
}

// betweenHosts returns a function that is true for the pairs of two hosts.
func betweenHosts(a, b int) func(pair) bool {
	return func(p pair) bool { return p == pair{a, b} || p == pair{b, a} }
}

// requireNamed requires of a cut of the RDMA network, before it ends, that each pair which passes it is not called ok any more, and that the
// network is blamed where the hosts could talk.
func (f *fleet) requireNamed(tr *truth, s trouble) {
	f.t.Helper()
	if s.kind != severed && s.kind != severedTo && s.kind != severedFrom {
		return
	}
	tr.noteRestarts(f)
	now := time.Now()
	for _, p := range f.pairs {
		if !anyFaultDuring(tr.silent, p, now, 0) {
			continue
		}
		last, _ := f.of(p)
		blames := last.verdict == "path" || last.verdict == "own_link"
		talks := !anyFaultDuring(tr.unheard, p, now, metWithin) && !anyFaultDuring(tr.hardly, p, now, metWithin) && !anyFaultDuring(tr.ended, p, now, metWithin)
		if last.verdict == "ok" || talks && !blames {
			f.t.Errorf("%v is silent for %v, and the hosts talk: %v: it is called %q%s", p, s.lasting, talks, last.verdict, last.Text("reason"))
		}
	}
}
