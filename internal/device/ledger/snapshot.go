package ledger

import "sync/atomic"

// EventCounts counts the events read and acknowledged of one type on one port.
type EventCounts struct {
	Type, Port  int32
	Read, Acked uint64
}

// Probe is the state of one probe slot.
type Probe struct {
	Port, Vector, Method int
	Lane                 Lane
	ProbeCounts
}

// Lane is the call that a thread is in.
type Lane struct {
	Call   Call
	Port   int   // that the call is about; 0: it is about none, or not known
	Thread int   // TID; 0: not known
	Beat   int64 // since when, CLOCK_MONOTONIC in ns
}

// Lasted returns for how many ns the call has lasted at now, CLOCK_MONOTONIC; 0 without a
// call.
func (l Lane) Lasted(now int64) int64 {
	if l.Call == CallNone {
		return 0
	}
	return max(0, now-l.Beat)
}

// Believable is more than a worker can count: at a hundred million events a second it
// takes a month. A higher count is damage. Added to other counts, it could make their sum
// fall.
const Believable = 1 << 48

// Snapshot is a copy of a ledger. Each number is read atomically. Numbers of a running
// worker may be a few events apart, but Acked is never ahead of Read. Slots of a damaged
// ledger whose numbers cannot be counts are left out.
type Snapshot struct {
	Reader, Control, Evidence Lane
	Events                    []EventCounts
	Probes                    []Probe
	Fabrics                   []Fabric
}

// Snapshot copies the ledger into s, reusing its slices. It may be called
// while the worker writes.
func (l *Ledger) Snapshot(s *Snapshot) {
	s.Reader = l.p.reader.get()
	s.Control, s.Evidence = l.Lanes()
	s.Events = s.Events[:0]
	for i := range min(atomic.LoadUint32(&l.p.events), EventSlots) {
		e := &l.p.event[i]
		// Acked is loaded first: an event acknowledged by then was read before.
		acked := atomic.LoadUint64(&e.acked)
		read := max(acked, atomic.LoadUint64(&e.read))
		if read < Believable {
			s.Events = append(s.Events, EventCounts{Type: e.typ, Port: e.port, Read: read, Acked: acked})
		}
	}
	s.Probes = s.Probes[:0]
	for i := range min(atomic.LoadUint32(&l.p.probes), ProbeSlots) {
		if p := l.p.probe[i].get(); p.believable() {
			s.Probes = append(s.Probes, p)
		}
	}
	l.fabrics(s)
}

// Lanes copies Control and Evidence, and nothing else.
func (l *Ledger) Lanes() (control, evidence Lane) { return l.p.ctl.get(), l.p.evid.get() }

func (s *threadState) get() Lane {
	word := atomic.LoadUint32(&s.call)
	return Lane{
		Call: Call(word & (1<<portShift - 1)), Port: int(word >> portShift),
		Thread: int(atomic.LoadUint32(&s.thread)), Beat: max(0, atomic.LoadInt64(&s.beat)), // no call began before the boot
	}
}

func (s *probeSlot) get() Probe {
	return Probe{
		Port: int(s.port), Vector: int(s.vector), Method: int(s.method), Lane: s.thread.get(), ProbeCounts: s.counts.load(),
	}
}

// Busy returns the call that has lasted longest among all threads;
// CallNone when no thread is in a call. It leaves out a call whose Lane has a Thread for
// which held returns true. held may be nil.
func (s *Snapshot) Busy(held func(thread int) bool) Lane {
	return s.oldest(func(l Lane) bool { return l.Thread == 0 || held == nil || !held(l.Thread) })
}

// Faulted returns the call in which a signal such as SIGSEGV can have ended the worker: of
// the calls into the library the one that has lasted longest. A call into the kernel runs
// no code of the library; it may have been under way on another thread.
func (s *Snapshot) Faulted() Lane {
	return s.oldest(func(l Lane) bool { return l.Call != CallReadSysfs && l.Call != CallEthtool })
}

// oldest returns the longest of the calls under way for which counts is true.
func (s *Snapshot) oldest(counts func(Lane) bool) Lane {
	var oldest Lane
	compare := func(l Lane) {
		if l.Call != CallNone && (oldest.Call == CallNone || l.Beat < oldest.Beat) && counts(l) {
			oldest = l
		}
	}
	compare(s.Reader)
	compare(s.Control)
	compare(s.Evidence)
	for i := range s.Probes {
		compare(s.Probes[i].Lane)
	}
	for i := range s.Fabrics {
		compare(s.Fabrics[i].Lane)
		compare(s.Fabrics[i].Control)
	}
	return oldest
}
