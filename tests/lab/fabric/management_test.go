//go:build guest

package fabric

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// TestManagementFaultsAreNotTakenForRDMAFaults has hosts whose plugins talk over a network of their own, and lets that network and
// the RDMA network fail, one apart from the other and both together. What is expected was written down before the code that decides
// it was read:
//
//	TCP                                RDMA                  expected
//	cut for 3 s                        whole                 nothing is said
//	cut for a minute                   whole                 nothing is said; the hosts connect again
//	one way cut, link down, refused    whole                 nothing is said
//	2 s round trip                     whole                 nothing is said
//	2 s round trip                     both ways of h2 cut   peer_down until h2 has answered, path once it has
//	all connections reset, three times whole                 nothing is said; the hosts connect again
//	whole                              to h2, then from it   path of both ends of each pair with h2, nothing of others
//	cut, then back                     cut, then whole       peer_down, which is not bad, while h2 cannot be asked; path once it can; then ok
//	cut                                cut for 5 s           no verdict on the network once RDMA is whole, though TCP is not
//	whole, then cut                    cut, then whole       path, which ends though TCP is still cut
//	cut for long                       cut for 650 ms        what was lost, and never that the writes are silent: they need TCP to go on
//	refused between h1 and h2          both ways of h2 cut   peer_down between h1 and h2, path of the others with h2
//	whole, then cut                    plugin of h4 killed   peer_down of h4 and nothing of others; ok when it is back
//	cut                                worker of h3 killed   at most peer_down with h3, which cannot meet again; ok once TCP is back
//
// Where it says path, the pairs of h2 itself become own_link if they are four or more. Nobody says ok of a pair that is silent, and after
// each fault all pairs are ok again. The two cases of a write that needs TCP, "whole, then cut" and "cut for long", were added later.
func TestManagementFaultsAreNotTakenForRDMAFaults(t *testing.T) {
	hosts, long, medium := 6, time.Minute, 30*time.Second
	if testing.Short() {
		hosts, long, medium = 4, 20*time.Second, 8*time.Second
	}
	f := startFleet(t, plan{hosts: hosts, managed: true})
	for _, c := range []struct {
		name string
		run  func(f *fleet)
	}{
		{"TCP is cut for 3 s", func(f *fleet) { f.talkFails(3*time.Second, f.management.CutAll) }},
		{"TCP is cut for a minute", func(f *fleet) {
			before := f.connections()
			f.talkFails(long, f.management.CutAll)
			f.awaitNewConnections(before)
		}},
		{"TCP to one host is cut in one direction", func(f *fleet) { f.talkFails(medium, func() { f.management.CutTo(3) }) }},
		{"the link of a host is down for TCP", func(f *fleet) { f.talkFails(medium, func() { f.management.Unplug(4) }) }},
		{"two hosts refuse each other", func(f *fleet) { f.talkFails(medium, func() { f.refuse(1, 2) }) }},
		{"TCP is slow", func(f *fleet) { f.talkFails(medium, func() { f.management.Slow(time.Second) }) }},
		{"RDMA is cut while TCP is slow", (*fleet).cutWhileSlow},
		{"all connections are reset three times", (*fleet).resetThreeTimes},
		{"RDMA is cut in one direction", (*fleet).cutOneDirection},
		{"both are cut and TCP returns first", (*fleet).cutBoth},
		{"RDMA is cut for a while within an outage of TCP", (*fleet).cutWithinOutage},
		{"TCP is cut while RDMA is and RDMA returns first", (*fleet).outageWithinCut},
		{"RDMA is cut for a moment long after TCP", (*fleet).blipWithinOutage},
		{"RDMA is cut while two hosts refuse each other", (*fleet).cutWhileRefused},
		{"a plugin is killed", func(f *fleet) { f.killedPlugin(4) }},
		{"a plugin is killed while TCP is cut", (*fleet).killWithinOutage},
		{"a worker is killed while TCP is cut", (*fleet).workerKilledWithinOutage},
	} {
		passed := t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			on := f.on(t)
			c.run(on)
			t.Logf("took %v", elapsedBetween(began, time.Now()))
		})
		if !passed { // the next one begins with pairs that are well
			logBusyThreads(t)
			f.management.Heal()
			f.net.Heal()
			f.awaitWell(3*time.Minute, allPairs)
		}
	}
}

// logBusyThreads logs where in the kernel those threads of the guest are that run or cannot be interrupted. A worker that the kernel does not
// let go is why a case fails of which nothing else is wrong.
func logBusyThreads(t *testing.T) {
	t.Helper()
	threads, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	for _, dir := range threads {
		stat, err := os.ReadFile(filepath.Join(dir, "stat")) // a thread that is gone by now is no longer busy
		if err != nil {
			continue
		}
		name, state, found := strings.Cut(string(stat), ") ")
		if !found || !strings.HasPrefix(state, "D") && !strings.HasPrefix(state, "R") {
			continue
		}
		stack, _ := os.ReadFile(filepath.Join(dir, "stack"))
		t.Logf("%s) in state %c:\n%s", name, state[0], stack)
	}
}

// talkFails lets only the management network fail, for a while, after which all hosts talk. Nothing is said meanwhile.
func (f *fleet) talkFails(lasting time.Duration, fail func()) {
	f.t.Helper()
	tr := f.observe()
	fail()
	pauseTest(f.t, lasting)
	f.management.Heal()
	f.awaitTalk()
	f.judgeBy(tr)
}

// connections returns the connections between the plugins that are established.
func (f *fleet) connections() map[guest.Connection]bool {
	f.t.Helper()
	return f.management.Connections(listensAt)
}

// awaitTalk waits until each host has a connection to each one that it probes.
func (f *fleet) awaitTalk() {
	f.t.Helper()
	f.awaitConnections(allPairs, nil)
}

// awaitNewConnections waits until each host has a connection to each one that it probes, and none is one of before.
func (f *fleet) awaitNewConnections(before map[guest.Connection]bool) {
	f.t.Helper()
	f.awaitConnections(allPairs, before)
}

// awaitConnections waits until each selected pair has a connection that did not exist before. of selects the pairs.
func (f *fleet) awaitConnections(of func(pair) bool, before map[guest.Connection]bool) {
	f.t.Helper()
	began := time.Now()
	guest.Eventually(f.t, "a new connection of each pair", 3*time.Minute, func() bool {
		connected := map[pair]bool{}
		for c := range f.connections() {
			if !before[c] {
				connected[pair{c.From, c.To}] = true
			}
		}
		return !slices.ContainsFunc(f.pairs, func(p pair) bool { return of(p) && !connected[p] })
	})
	f.t.Logf("the hosts talk again after %v", round(time.Since(began)))
}

// refuse lets two hosts refuse each other, and resets the connections, so that they need new ones.
func (f *fleet) refuse(a, b int) {
	f.t.Helper()
	f.management.Refuse(a, b)
	f.management.Reset(listensAt)
}

// cutHost cuts the RDMA packets from and to a host.
func (f *fleet) cutHost(host int) (began time.Time) {
	f.t.Helper()
	return f.net.Cut(f.net.To(host), f.net.From(host))
}

// cutWhileSlow cuts a host's link while each answer of TCP takes two seconds.
func (f *fleet) cutWhileSlow() {
	f.t.Helper()
	tr := f.observe()
	f.management.Slow(time.Second)
	heal := beginFault(&tr.silent, withHost(2))
	cut := f.cutHost(2)
	found := f.awaitBlame(cut, withHost(2))
	checkDuration(f.t, "path, from the cut on, while a round trip takes 2 s", latestOf(found).Sub(cut), 2*time.Second+lastVerdict)
	f.net.Heal()
	heal()
	f.awaitWell(2*time.Minute, allPairs)
	f.management.Heal()
	f.awaitTalk()
	f.judgeBy(tr)
}

func (f *fleet) resetThreeTimes() {
	f.t.Helper()
	tr := f.observe()
	for range 3 {
		before := f.connections()
		f.management.Reset(listensAt)
		f.awaitNewConnections(before)
	}
	pauseTest(f.t, 5*time.Second)
	f.judgeBy(tr)
}

// cutOneDirection cuts what goes to a host, and then what comes from it.
func (f *fleet) cutOneDirection() {
	f.t.Helper()
	for _, c := range []cut{
		{"what goes to h2", 2, []guest.Place{f.net.To(2)}},
		{"what comes from h2", 2, []guest.Place{f.net.From(2)}},
	} {
		tr := f.observe()
		heal := beginFault(&tr.silent, withHost(2))
		cut := f.net.Cut(c.places...)
		found := f.awaitBlame(cut, withHost(2))
		checkDuration(f.t, c.name+": the first verdict", earliestOf(found).Sub(cut), firstVerdict)
		checkDuration(f.t, c.name+": the last observer", latestOf(found).Sub(cut), lastVerdict)
		for _, s := range f.since(cut) {
			if s.verdict == "path" && !s.bad {
				f.t.Errorf("%s of %s: path, and not bad: %v", s.by, s.of, s.Fields)
			}
		}
		f.net.Heal()
		heal()
		f.awaitWell(2*time.Minute, allPairs)
		f.judgeBy(tr)
	}
}

// awaitBlame waits until all pairs for which of returns true blame the network since a cut: path, or own_link where a port has pairs enough to
// know that its own link is at fault.
func (f *fleet) awaitBlame(cut time.Time, of func(pair) bool) map[pair]time.Time {
	f.t.Helper()
	return f.await("a verdict on the network", cut, 2*time.Minute, of, func(s said) bool { return s.verdict == "path" || s.verdict == "own_link" })
}

// cutBoth cuts TCP, then the RDMA packets of a host. TCP returns first.
func (f *fleet) cutBoth() {
	f.t.Helper()
	tr := f.observe()
	f.management.CutAll()
	restored := beginFault(&tr.unheard, allPairs)
	heal := beginFault(&tr.silent, withHost(2))
	cut := f.cutHost(2)
	found := f.awaitVerdict("peer_down", cut, time.Minute, withHost(2))
	checkDuration(f.t, "peer_down", latestOf(found).Sub(cut), 2*time.Second)
	pauseTest(f.t, 15*time.Second)
	for _, p := range f.pairs {
		if s, _ := f.of(p); withHost(2)(p) && (s.verdict != "peer_down" || s.bad) {
			f.t.Errorf("%v: want peer_down, which is not bad, as long as TCP is cut too, got %v", p, s.Fields)
		}
	}
	restored()
	f.management.Heal()
	back := time.Now()
	found = f.awaitBlame(back, withHost(2))
	f.t.Logf("path %v to %v after TCP is back", elapsedBetween(back, earliestOf(found)), elapsedBetween(back, latestOf(found)))
	f.net.Heal()
	heal()
	f.awaitWell(2*time.Minute, allPairs)
	f.judgeBy(tr)
}

// cutWithinOutage cuts the RDMA packets of a host for long enough that its connections break. TCP stays down, and without TCP the
// hosts cannot make new connections.
func (f *fleet) cutWithinOutage() {
	f.t.Helper()
	tr := f.observe()
	f.management.CutAll()
	restored := beginFault(&tr.unheard, allPairs)
	heal := beginFault(&tr.silent, withHost(2))
	f.cutHost(2)
	pauseTest(f.t, 5*time.Second)
	f.net.Heal()
	heal()
	pauseTest(f.t, 40*time.Second)
	for _, p := range f.pairs {
		f.t.Logf("%v: %v", p, f.turns(p, tr.began))
	}
	restored()
	f.management.Heal()
	f.awaitWell(2*time.Minute, allPairs)
	f.judgeBy(tr)
}

// outageWithinCut cuts TCP while the RDMA packets of a host are cut, and heals these first.
func (f *fleet) outageWithinCut() {
	f.t.Helper()
	tr := f.observe()
	heal := beginFault(&tr.silent, withHost(2))
	cut := f.cutHost(2)
	f.awaitBlame(cut, withHost(2))
	f.management.CutAll()
	restored := beginFault(&tr.unheard, allPairs)
	pauseTest(f.t, connectionsEnd)
	f.net.Heal()
	heal()
	healed := time.Now()
	found := f.await("no verdict on the network", healed, time.Minute, withHost(2), func(s said) bool { return s.verdict == "ok" })
	f.t.Logf("ok %v to %v after RDMA is whole, without TCP", elapsedBetween(healed, earliestOf(found)), elapsedBetween(healed, latestOf(found)))
	restored()
	f.management.Heal()
	f.awaitTalk()
	f.awaitWell(2*time.Minute, allPairs)
	f.judgeBy(tr)
}

// connectionsEnd is longer than both ends of a connection take to notice that no packet comes.
const connectionsEnd = 20 * time.Second

// blipWithinOutage breaks the queue pairs of the writes of a host, which need TCP to be connected anew.
func (f *fleet) blipWithinOutage() {
	f.t.Helper()
	began := time.Now()
	f.management.CutAll()
	pauseTest(f.t, connectionsEnd)
	errors := f.sum("write_errors")
	cut := f.cutHost(2)
	pauseTest(f.t, 650*time.Millisecond)
	f.net.Heal()
	pauseTest(f.t, 20*time.Second)
	f.t.Logf("%d writes have failed", f.sum("write_errors")-errors)
	f.management.Heal()
	f.awaitTalk()
	f.awaitWell(3*time.Minute, allPairs)
	for _, s := range f.since(began) {
		p := pair{numberOf(s.by), numberOf(s.of)}
		if s.verdict == "partial" || !withHost(2)(p) && s.verdict != "peer_busy" && s.verdict != "ok" {
			f.t.Errorf("%v, %v after the cut: %v", p, elapsedBetween(cut, s.came), s.Fields)
		}
	}
}

// cutWhileRefused cuts the RDMA packets of a host while one other host does not reach it by TCP.
func (f *fleet) cutWhileRefused() {
	f.t.Helper()
	apart := betweenHosts(1, 2)
	others := func(p pair) bool { return withHost(2)(p) && !apart(p) }
	tr := f.observe()
	before := f.connections()
	f.refuse(1, 2)
	restored := beginFault(&tr.unheard, apart)
	f.awaitConnections(func(p pair) bool { return !apart(p) }, before)
	heal := beginFault(&tr.silent, withHost(2))
	cut := f.cutHost(2)
	f.awaitBlame(cut, others)
	f.awaitVerdict("peer_down", cut, time.Minute, apart)
	f.net.Heal()
	heal()
	restored()
	f.management.Heal()
	f.awaitWell(2*time.Minute, allPairs)
	f.judgeBy(tr)
}

// killWithinOutage kills a plugin while TCP is cut, and starts it before TCP is back.
func (f *fleet) killWithinOutage() {
	f.t.Helper()
	const host = 4
	tr := f.observe()
	f.management.CutAll()
	restored := beginFault(&tr.unheard, allPairs)
	met, up := beginFault(&tr.ended, withHost(host)), beginFault(&tr.answered, toHost(host))
	killed := time.Now()
	f.hosts[host].kill()
	found := f.awaitVerdict("peer_down", killed, time.Minute, toHost(host))
	checkDuration(f.t, "peer_down after kill -9", latestOf(found).Sub(killed), 2*time.Second)
	f.hosts[host].start()
	f.hosts[host].awaitOpen()
	up()
	pauseTest(f.t, 5*time.Second)
	restored()
	f.management.Heal()
	back := time.Now()
	f.awaitVerdict("ok", back, 3*time.Minute, withHost(host))
	met()
	f.t.Logf("all pairs with h%d are well %v after TCP is back", host, elapsedBetween(back, time.Now()))
	f.awaitWell(time.Minute, allPairs)
	f.judgeBy(tr)
}

// workerKilledWithinOutage kills a worker while TCP is cut. Its successor has other queue pairs, of which no other host is told.
func (f *fleet) workerKilledWithinOutage() {
	f.t.Helper()
	const host = 3
	tr := f.observe()
	f.management.CutAll()
	restored := beginFault(&tr.unheard, allPairs)
	met := beginFault(&tr.ended, withHost(host))
	killed := time.Now()
	f.signal(f.hosts[host].worker(), syscall.SIGKILL)
	f.awaitVerdict("peer_down", killed, time.Minute, toHost(host))
	pauseTest(f.t, 10*time.Second)
	restored()
	f.management.Heal()
	back := time.Now()
	f.awaitVerdict("ok", back, 3*time.Minute, withHost(host))
	met()
	f.t.Logf("all pairs with h%d are well %v after TCP is back", host, elapsedBetween(back, time.Now()))
	f.judgeBy(tr)
}
