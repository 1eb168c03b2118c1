package devices

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// sink collects the facts of one call of Run.
type sink struct {
	facts  []verbs.FabricFact
	n      int
	count  *fabricCounter
	urgent bool // a fact requires that Run returns at once
}

// addFact adds a fact of a pair and counts it.
func (s *sink) addFact(p *fabricPair, kind verbs.FabricKind, at int64) *verbs.FabricFact {
	fact := &s.facts[s.n]
	s.n++
	*fact = verbs.FabricFact{Kind: kind, Pair: p.slot, Session: p.peer.Session, At: at}
	s.count.countFact(fact)
	return fact
}

// hasRoom reports whether there is space for the facts of one more step, at most four.
func (s *sink) hasRoom() bool { return s.n+4 <= len(s.facts) }

// Run implements verbs.FabricEndpoint.
func (f *fabricEnd) Run(facts []verbs.FabricFact, lasting time.Duration) (n int, upTo int64, err error) {
	err = verbs.ErrClosed
	if f.gate.enter() {
		defer f.gate.leave()
		n, upTo, err = f.runUntil(&sink{facts: facts, count: &f.counter}, lasting)
	}
	return n, upTo, opError("run fabric", f.d.attr.Name, f.c.Port, err)
}

func (f *fabricEnd) runUntil(s *sink, lasting time.Duration) (n int, upTo int64, err error) {
	if len(s.facts) < verbs.MinFabricFacts {
		return 0, 0, fmt.Errorf("%w: room for %d facts instead of %d", unix.EINVAL, len(s.facts), verbs.MinFabricFacts)
	}
	end := f.d.w.clock() + int64(lasting)
	for nudged := false; ; {
		var taken, next int64
		if taken, next, err = f.runTurn(s); err != nil {
			break
		}
		if upTo = taken; nudged || s.urgent || upTo >= end || !s.hasRoom() {
			break
		}
		if nudged, err = f.wait(min(next, end)); err != nil {
			break
		}
	}
	return s.n, upTo, err
}

// hangIfDue blocks Run in a verbs call while a hang_fabric lasts. It returns false if the Fabric closes meanwhile.
func (f *fabricEnd) hangIfDue() bool {
	now := f.d.w.clock()
	fault, end := f.d.h.fault(hangFabric, f.c.Port, 0, now)
	if fault == nil {
		return true
	}
	f.counter.setCall(ledger.CallPostSend, now)
	if !f.d.w.Sleep(end, f.gate.abandoned) {
		return false
	}
	f.counter.setCall(ledger.CallNone, f.d.w.clock())
	return true
}

// runTurn handles all completions and then carries out the actions that are due. It returns the time up to which the sink has all facts, and the
// time of the next turn.
func (f *fabricEnd) runTurn(s *sink) (upTo, next int64, err error) {
	if !f.hangIfDue() {
		return 0, 0, verbs.ErrClosed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	active, err := f.linkState()
	if err != nil {
		return 0, 0, err
	}
	now := f.d.w.clock()
	f.addRemoteProbes(now, active)
	if upTo, ok := f.drainCompletions(now, active, s); !ok {
		return upTo, now, nil
	}
	f.reportLate(now, s)
	for _, p := range f.pairs {
		if p != nil && p.peer.Role == verbs.FabricProbes && s.hasRoom() {
			p.runStep(now, active, s)
		}
	}
	f.expected = f.nextDeadline(now + int64(time.Second))
	return now, f.nextCompletion(f.expected), nil
}

// addRemoteProbes adds the probes of all remotes to the inbox.
func (f *fabricEnd) addRemoteProbes(now int64, active bool) {
	for _, p := range f.pairs {
		if p != nil && p.peer.Role == verbs.FabricAnswers && p.remote != nil {
			p.addRemoteProbes(now, active)
		}
	}
}

// drainCompletions handles all completions by now, in order. It must be called before deadlines are checked. If the sink is full first, it
// returns the time up to which it has handled all completions, and false.
func (f *fabricEnd) drainCompletions(now int64, active bool, s *sink) (upTo int64, ok bool) {
	var got [verbs.MaxFabricPaths]int // receives
	completed := false
	for s.hasRoom() {
		p := f.firstWrite()
		at := f.inbox.firstArrival()
		if p != nil && p.write.due <= at {
			at = p.write.due
		} else {
			p = nil
		}
		if at > now {
			f.finishDrain(completed, got)
			return now, true
		}
		completed, upTo = true, at
		if p != nil {
			p.handleWriteDue(active, s)
			continue
		}
		m := f.inbox.pop()
		if got[m.path]++; got[m.path] <= fabricReceives {
			f.receiveDatagram(&m, now, active, s)
		}
	}
	f.finishDrain(completed, got)
	return upTo, false
}

// firstWrite returns the pair whose outstanding write is due first, or nil if there is none.
func (f *fabricEnd) firstWrite() *fabricPair {
	var first *fabricPair
	for _, p := range f.pairs {
		if p != nil && p.write.posted != 0 && (first == nil || p.write.due < first.write.due) {
			first = p
		}
	}
	return first
}

// finishDrain counts one event for all completions that were handled together, and counts paths whose receives were used up. Only later echoes
// report that.
func (f *fabricEnd) finishDrain(completed bool, got [verbs.MaxFabricPaths]int) {
	if completed {
		f.counter.countEvent()
	}
	for path, n := range got {
		if n >= fabricReceives {
			f.dry[path]++
			f.counter.countDry()
		}
	}
}

// receiveDatagram handles a datagram if it belongs to a pair: it has the session of the pair, comes from the queue pair of its path, and is
// of the kind that the role of the pair expects. A probe that arrives twice is neither counted nor echoed again.
func (f *fabricEnd) receiveDatagram(m *datagram, now int64, active bool, s *sink) {
	role := verbs.FabricAnswers
	if m.echo {
		role = verbs.FabricProbes
	}
	for _, p := range f.pairs {
		if p == nil || !active || p.peer.Session != m.session || p.peer.Role != role || m.path >= len(p.peer.UD) ||
			p.peer.UD[m.path] != m.from {
			continue
		}
		switch {
		case m.echo && p.takeEcho(m, s):
			return
		case !m.echo && p.isNew(m.seq):
			p.answerProbe(m, now)
			return
		}
		break
	}
	if active {
		f.counter.countForeign()
	}
}

// reportLate restarts the deadlines of all pairs if Run was delayed too long, and adds a fact about the delay.
func (f *fabricEnd) reportLate(now int64, s *sink) {
	late := now - f.expected
	if f.expected == 0 || late <= verdict.LateAfter || !s.hasRoom() {
		return
	}
	for _, p := range f.pairs {
		if p != nil {
			p.watch.RestartDeadline(now)
		}
	}
	fact := s.addFact(&fabricPair{slot: -1}, verbs.FabricLate, now)
	fact.Took = late
	s.urgent = true
}

// nextDeadline returns the time of the next step of a probing pair, at most until.
func (f *fabricEnd) nextDeadline(until int64) int64 {
	for _, p := range f.pairs {
		if p == nil || p.peer.Role != verbs.FabricProbes {
			continue
		}
		until = p.watch.NextDeadline(min(until, p.next))
	}
	return until
}

// nextCompletion returns the time of the next completion, at most until.
func (f *fabricEnd) nextCompletion(until int64) int64 {
	until = min(until, f.inbox.firstArrival())
	for _, p := range f.pairs {
		switch {
		case p == nil:
		case p.peer.Role == verbs.FabricAnswers && p.remote != nil:
			until = min(until, p.next)
		case p.write.posted != 0:
			until = min(until, p.write.due)
		}
	}
	return until
}

// wait waits until a time, a datagram of another Fabric, or a nudge. It returns ErrClosed when the device or the Fabric closes.
func (f *fabricEnd) wait(until int64) (nudged bool, err error) {
	if w := f.d.w; w.waits != nil {
		if !w.waits(until) {
			err = verbs.ErrClosed
		}
		return false, err
	}
	timer := time.NewTimer(time.Duration(until - f.d.w.clock()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.inbox.arrived:
	case <-f.nudge:
		return true, nil
	case <-f.gate.closing:
		return false, verbs.ErrClosed
	case <-f.d.gate.closing:
		return false, verbs.ErrClosed
	}
	return false, nil
}
