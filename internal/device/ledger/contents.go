package ledger

import "sync/atomic"

// EventCounts counts the events read and acknowledged of one type on one port.
type EventCounts struct {
	Type, Port  int32
	Read, Acked uint64
}

// Probe is a copy of one probe slot.
type Probe struct {
	Port, Vector, Method int
	Call                 ThreadCall
	ProbeCounts
}

// ThreadCall describes the call that a thread is in.
type ThreadCall struct {
	Call   Call
	Port   int   // the port that the call is about; 0: none or unknown
	Thread int   // TID; 0: unknown
	Since  int64 // start of the call, CLOCK_MONOTONIC in ns
}

// Lasted returns how long the call has lasted at the time now, in ns of CLOCK_MONOTONIC; 0
// without a call.
func (t ThreadCall) Lasted(now int64) int64 {
	if t.Call == CallNone {
		return 0
	}
	return max(0, now-t.Since)
}

// ImplausibleCount is a count that no worker reaches: at a hundred million events a second it
// takes a month. Such a count comes from damaged memory. Added to other counts, it could make
// their sum overflow, and so fall.
const ImplausibleCount = 1 << 48

// Contents is a copy of a ledger. Each number is read atomically. While the worker runs, the
// numbers may be a few events apart, but Acked never exceeds Read. Slots with implausible
// counts are left out; they come from a damaged ledger.
type Contents struct {
	Reader, Control, Evidence ThreadCall
	Events                    []EventCounts
	Probes                    []Probe
	Fabrics                   []FabricState
}

// CopyTo copies the ledger into s, reusing its slices. It may be called while the worker
// writes.
func (l *Ledger) CopyTo(s *Contents) {
	s.Reader = l.p.reader.get()
	s.Control, s.Evidence = l.ControlCalls()
	s.Events = s.Events[:0]
	for i := range min(atomic.LoadUint32(&l.p.events), EventSlots) {
		e := &l.p.event[i]
		// acked is loaded first: all events in it have been read before.
		acked := atomic.LoadUint64(&e.acked)
		read := max(acked, atomic.LoadUint64(&e.read))
		if read < ImplausibleCount {
			s.Events = append(s.Events, EventCounts{Type: e.typ, Port: e.port, Read: read, Acked: acked})
		}
	}
	s.Probes = s.Probes[:0]
	for i := range min(atomic.LoadUint32(&l.p.probes), ProbeSlots) {
		if p := l.p.probe[i].get(); p.isPlausible() {
			s.Probes = append(s.Probes, p)
		}
	}
	l.copyFabrics(s)
}

// ControlCalls returns the calls of the control thread and of the evidence thread.
func (l *Ledger) ControlCalls() (control, evidence ThreadCall) { return l.p.ctl.get(), l.p.evid.get() }

func (s *threadState) get() ThreadCall {
	word := atomic.LoadUint32(&s.call)
	return ThreadCall{
		Call: Call(word & (1<<portShift - 1)), Port: int(word >> portShift),
		Thread: int(atomic.LoadUint32(&s.thread)), Since: max(0, atomic.LoadInt64(&s.since)), // no call began before the boot
	}
}

func (s *probeSlot) get() Probe {
	return Probe{
		Port: int(s.port), Vector: int(s.vector), Method: int(s.method), Call: s.thread.get(), ProbeCounts: s.counts.load(),
	}
}

// LongestCall returns the call that has lasted longest among all threads; CallNone if no
// thread is in a call. It ignores a call with a known Thread for which held returns true. held
// may be nil.
func (s *Contents) LongestCall(held func(thread int) bool) ThreadCall {
	return s.oldest(func(l ThreadCall) bool { return l.Thread == 0 || held == nil || !held(l.Thread) })
}

// FaultedCall returns the call in which a signal such as SIGSEGV may have ended the worker: the
// call into the library that has lasted longest. Calls into the kernel are ignored, since they
// run no code of the library; another thread may have been in one.
func (s *Contents) FaultedCall() ThreadCall {
	return s.oldest(func(l ThreadCall) bool { return l.Call != CallReadSysfs && l.Call != CallEthtool })
}

// oldest returns the current call that began first, among the calls for which include returns true.
func (s *Contents) oldest(include func(ThreadCall) bool) ThreadCall {
	var oldest ThreadCall
	compare := func(c ThreadCall) {
		if c.Call != CallNone && (oldest.Call == CallNone || c.Since < oldest.Since) && include(c) {
			oldest = c
		}
	}
	compare(s.Reader)
	compare(s.Control)
	compare(s.Evidence)
	for i := range s.Probes {
		compare(s.Probes[i].Call)
	}
	for i := range s.Fabrics {
		compare(s.Fabrics[i].Call)
		compare(s.Fabrics[i].Control)
	}
	return oldest
}
