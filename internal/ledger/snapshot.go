package ledger

import "sync/atomic"

// EventCounts counts the events read and acknowledged of one type on one port.
type EventCounts struct {
	Type, Port  int32
	Read, Acked uint64
}

// ProbeCounts counts how the rounds of a probe ended, and its events.
type ProbeCounts struct {
	Rounds, Successes, Errors   uint64
	LostEvents, LostCompletions uint64
	Events, Acked               uint64
	Spurious, Late              uint64
	Resent                      uint64 // rounds of ud_send that sent a second datagram
}

// Probe is the state of one probe slot.
type Probe struct {
	Port, Vector, Method int
	Lane                 Lane
	ProbeCounts
}

// Lane is the call that a thread is in, and since when (CLOCK_MONOTONIC, ns).
type Lane struct {
	Call Call
	Beat int64
}

// believable is more than a worker can count: at a hundred million events a second it
// takes a month. A higher count is damage. Added to other counts, it could make their sum
// fall.
const believable = 1 << 48

// Snapshot is a copy of a ledger. Each number is read atomically. Numbers of a running
// worker may be a few events apart, but Acked is never ahead of Read. Slots of a damaged
// ledger whose numbers cannot be counts are left out.
type Snapshot struct {
	Reader, Control Lane
	Events          []EventCounts
	Probes          []Probe
}

// Snapshot copies the ledger into s, reusing its slices. It may be called
// while the worker writes.
func (l *Ledger) Snapshot(s *Snapshot) {
	s.Reader, s.Control = l.p.reader.get(), l.p.ctl.get()
	s.Events = s.Events[:0]
	for i := range min(atomic.LoadUint32(&l.p.events), EventSlots) {
		e := &l.p.event[i]
		// Acked is loaded first: an event acknowledged by then was read before.
		acked := atomic.LoadUint64(&e.acked)
		read := max(acked, atomic.LoadUint64(&e.read))
		if read < believable {
			s.Events = append(s.Events, EventCounts{Type: e.typ, Port: e.port, Read: read, Acked: acked})
		}
	}
	s.Probes = s.Probes[:0]
	for i := range min(atomic.LoadUint32(&l.p.probes), ProbeSlots) {
		if p := l.p.probe[i].get(); p.believable() {
			s.Probes = append(s.Probes, p)
		}
	}
}

func (c *ProbeCounts) believable() bool {
	return max(c.Rounds, c.Successes, c.Errors, c.LostEvents, c.LostCompletions, c.Events, c.Acked, c.Spurious, c.Late, c.Resent) < believable
}

func (s *threadState) get() Lane {
	return Lane{Call: Call(atomic.LoadUint32(&s.call)), Beat: atomic.LoadInt64(&s.beat)}
}

func (s *probeSlot) get() Probe {
	p := Probe{Port: int(s.port), Vector: int(s.vector), Method: int(s.method), Lane: s.thread.get()}
	// The sum is read before its parts, and acked before events, for the same reason as above.
	p.Rounds = atomic.LoadUint64(&s.rounds)
	p.Acked = atomic.LoadUint64(&s.acked)
	p.Events = atomic.LoadUint64(&s.events)
	p.Successes = atomic.LoadUint64(&s.successes)
	p.Errors = atomic.LoadUint64(&s.errors)
	p.LostEvents = atomic.LoadUint64(&s.lostEvents)
	p.LostCompletions = atomic.LoadUint64(&s.lostCompletions)
	p.Spurious = atomic.LoadUint64(&s.spurious)
	p.Late = atomic.LoadUint64(&s.late)
	p.Resent = atomic.LoadUint64(&s.resent)
	return p
}

// Sub returns c minus base, field by field.
func (c ProbeCounts) Sub(base ProbeCounts) ProbeCounts { return c.combine(base, ^uint64(0)) }

// Add returns the sum of both, field by field.
func (c ProbeCounts) Add(o ProbeCounts) ProbeCounts { return c.combine(o, 1) }

func (c ProbeCounts) combine(o ProbeCounts, sign uint64) ProbeCounts {
	return ProbeCounts{
		Rounds: c.Rounds + sign*o.Rounds, Successes: c.Successes + sign*o.Successes,
		Errors: c.Errors + sign*o.Errors, LostEvents: c.LostEvents + sign*o.LostEvents,
		LostCompletions: c.LostCompletions + sign*o.LostCompletions,
		Events:          c.Events + sign*o.Events, Acked: c.Acked + sign*o.Acked,
		Spurious: c.Spurious + sign*o.Spurious, Late: c.Late + sign*o.Late,
		Resent: c.Resent + sign*o.Resent,
	}
}

// Busy returns the call that has lasted longest among all threads, and since
// when; CallNone when no thread is in a call.
func (s *Snapshot) Busy() Lane {
	var oldest Lane
	compare := func(l Lane) {
		if l.Call != CallNone && (oldest.Call == CallNone || l.Beat < oldest.Beat) {
			oldest = l
		}
	}
	compare(s.Reader)
	compare(s.Control)
	for i := range s.Probes {
		compare(s.Probes[i].Lane)
	}
	return oldest
}
