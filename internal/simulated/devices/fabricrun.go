package devices

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// sink is where facts go while Run lasts.
type sink struct {
	facts []verbs.FabricFact
	n     int
	count *fabricCount
	amiss bool // something that does not wait for the end of the call
}

// add adds a fact of a pair, and counts it.
func (s *sink) add(p *fabricPair, kind verbs.FabricKind, at int64) *verbs.FabricFact {
	fact := &s.facts[s.n]
	s.n++
	*fact = verbs.FabricFact{Kind: kind, Pair: p.place, Session: p.peer.Session, At: at}
	s.count.saw(fact)
	return fact
}

// room reports whether the facts of one more step fit, of which there are at most four.
func (s *sink) room() bool { return s.n+4 <= len(s.facts) }

// Run implements verbs.Fabric.
func (f *fabricEnd) Run(facts []verbs.FabricFact, lasting time.Duration) (n int, upTo int64, err error) {
	err = verbs.ErrClosed
	if f.gate.enter() {
		defer f.gate.leave()
		n, upTo, err = f.run(&sink{facts: facts, count: &f.count}, lasting)
	}
	return n, upTo, opError("run fabric", f.d.attr.Name, f.c.Port, err)
}

func (f *fabricEnd) run(s *sink, lasting time.Duration) (n int, upTo int64, err error) {
	if len(s.facts) < verbs.MinFabricFacts {
		return 0, 0, fmt.Errorf("%w: room for %d facts instead of %d", unix.EINVAL, len(s.facts), verbs.MinFabricFacts)
	}
	end := f.d.w.clock() + int64(lasting)
	for nudged := false; ; {
		var taken, next int64
		if taken, next, err = f.turn(s); err != nil {
			break
		}
		if upTo = taken; nudged || s.amiss || upTo >= end || !s.room() {
			break
		}
		if nudged, err = f.wait(min(next, end)); err != nil {
			break
		}
	}
	return s.n, upTo, err
}

// hang keeps Run inside a verbs call for as long as a hang_fabric lasts. It returns false if the Fabric closes meanwhile.
func (f *fabricEnd) hang() bool {
	now := f.d.w.clock()
	fault, end := f.d.h.fault(hangFabric, f.c.Port, 0, now)
	if fault == nil {
		return true
	}
	f.count.lane(ledger.CallPostSend, now)
	if !f.d.w.Sleep(end, f.gate.lost) {
		return false
	}
	f.count.lane(ledger.CallNone, f.d.w.clock())
	return true
}

// turn takes what has completed, and then does what is due. It returns the moment up to which all is in the sink, and when the
// next turn is due.
func (f *fabricEnd) turn(s *sink) (upTo, next int64, err error) {
	if !f.hang() {
		return 0, 0, verbs.ErrClosed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	active, err := f.link()
	if err != nil {
		return 0, 0, err
	}
	now := f.d.w.clock()
	f.hear(now, active)
	if upTo, ok := f.drain(now, active, s); !ok {
		return upTo, now, nil
	}
	f.noticeLate(now, s)
	for _, p := range f.pairs {
		if p != nil && p.peer.Role == verbs.FabricProbes && s.room() {
			p.step(now, active, s)
		}
	}
	f.expected = f.due(now + int64(time.Second))
	return now, f.comes(f.expected), nil
}

// hear takes what the remotes have sent that probe.
func (f *fabricEnd) hear(now int64, active bool) {
	for _, p := range f.pairs {
		if p != nil && p.peer.Role == verbs.FabricAnswers && p.remote != nil {
			p.hear(now, active)
		}
	}
}

// drain takes all that has completed by now, in order. Deadlines are looked at only after it. If the sink is full before, it
// returns the moment up to which it has taken all, and false.
func (f *fabricEnd) drain(now int64, active bool, s *sink) (upTo int64, ok bool) {
	var got [verbs.MaxFabricPaths]int // receives
	completed := false
	for s.room() {
		p := f.firstWrite()
		at := f.inbox.first()
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
			p.retry(active, s)
			continue
		}
		m := f.inbox.take()
		if got[m.path]++; got[m.path] <= fabricReceives {
			f.receive(&m, now, active, s)
		}
	}
	f.finishDrain(completed, got)
	return upTo, false
}

// firstWrite returns the pair of whose write something becomes first, nil if there is none.
func (f *fabricEnd) firstWrite() *fabricPair {
	var first *fabricPair
	for _, p := range f.pairs {
		if p != nil && p.write.posted != 0 && (first == nil || p.write.due < first.write.due) {
			first = p
		}
	}
	return first
}

// finishDrain counts the event of what was taken together. Whoever asked before receives were used up hears nothing of it; the
// next one does.
func (f *fabricEnd) finishDrain(completed bool, got [verbs.MaxFabricPaths]int) {
	if completed {
		f.count.event()
	}
	for path, n := range got {
		if n >= fabricReceives {
			f.dry[path]++
			f.count.dry()
		}
	}
}

// receive takes a datagram if it is of a pair: of its session, of the queue pair that belongs to the path, and of the kind that
// its role has to do with. A probe that arrives again is neither counted nor echoed again.
func (f *fabricEnd) receive(m *datagram, now int64, active bool, s *sink) {
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
			p.answer(m, now)
			return
		}
		break
	}
	if active {
		f.count.foreign()
	}
}

// noticeLate excuses pairs from what Run was too late for: they have all of their time once more.
func (f *fabricEnd) noticeLate(now int64, s *sink) {
	late := now - f.expected
	if f.expected == 0 || late <= verdict.LateAfter || !s.room() {
		return
	}
	for _, p := range f.pairs {
		if p != nil {
			p.watch.RestartDeadline(now)
		}
	}
	fact := s.add(&fabricPair{place: -1}, verbs.FabricLate, now)
	fact.Took = late
	s.amiss = true
}

// due returns when the next step of a pair that probes is due, at most until.
func (f *fabricEnd) due(until int64) int64 {
	for _, p := range f.pairs {
		if p == nil || p.peer.Role != verbs.FabricProbes {
			continue
		}
		until = p.watch.NextDeadline(min(until, p.next))
	}
	return until
}

// comes returns when something completes next, at most until.
func (f *fabricEnd) comes(until int64) int64 {
	until = min(until, f.inbox.first())
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

// wait waits for a moment, a datagram of another Fabric, or a nudge. It returns ErrClosed when the device or the Fabric closes.
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
	case <-f.inbox.came:
	case <-f.nudge:
		return true, nil
	case <-f.gate.closing:
		return false, verbs.ErrClosed
	case <-f.d.gate.closing:
		return false, verbs.ErrClosed
	}
	return false, nil
}
