package devices

import (
	"math"
	"time"

	"rdma_events/internal/device/verbs"
)

// behaviour defines the events and hangs of each process of an [[app]]. Its times are relative to the start of the process.
type behaviour struct {
	events schedule // times of its events
	typ    verbs.EventType
	count  uint64 // number of events for each time; 0: there are none
	number uint32 // number of the object in the first process; each further process has the next number
	skips  bool   // the kernel has no memory for the events
	reads  after
	hang   hang
}

// hang is a thread that destroys an object and then waits for missing acknowledgements.
type hang struct {
	at, length int64 // at is never if there is no hang
	object     verbs.Scope
	number     uint32
	missing    uint32
	asleep     bool // the thread never runs while it waits
}

// maxNumber is the highest number of a queue pair.
const maxNumber = 1<<24 - 1

// wakeUp is the time in which a waiting process reads an event.
const wakeUp = 30 * time.Microsecond

func readBehaviour(t *table, length int64) behaviour {
	const firstNumber = 0x100 // those below are the kernel's
	b := behaviour{reads: readAfter(t), hang: hang{at: never}}
	t.requireKey("event_", "event")
	if name := t.text("event", ""); name != "" {
		var ok bool
		if b.typ, ok = verbs.ParseEventType(name); !ok || !b.typ.Known() || b.typ.Scope() == verbs.ScopePort {
			t.fail("event", "is %q; allowed: a type of [[event]] that is of no port, and has a name", name)
		}
		b.events = t.schedule("event_")
		b.count = uint64(t.integer("event_count", 1, 1, 1e9))
		b.skips = t.flag("event_skipped")
		t.checkBefore("event_at", b.events.at, length)
	}
	t.requireKey("hang_", "hang_at")
	if t.value("hang_at") != nil {
		b.hang = readHang(t, b.scope())
		t.checkBefore("hang_at", b.hang.at, length)
	}
	number := firstNumber + int64(t.index)*maxProcesses%(maxNumber-firstNumber-maxProcesses)
	b.number = uint32(t.integer("number", number, 1, maxNumber))
	return b
}

// readAfter reads read_after.
func readAfter(t *table) after {
	if t.values["read_after"] == "never" {
		t.value("read_after")
		return never
	}
	return after(t.span("read_after", 0, 0)) + after(wakeUp)
}

func readHang(t *table, of verbs.Scope) hang {
	objects := map[string]verbs.Scope{}
	for _, s := range []verbs.Scope{verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ} {
		objects[s.String()] = s
	}
	if _, ok := objects[of.String()]; !ok {
		of = verbs.ScopeQP
	}
	const asleep, waiting = "asleep", "waiting"
	return hang{
		at: t.span("hang_at", 0, 0), length: t.span("hang_for", never, time.Nanosecond),
		object:  objects[choiceFrom(t, "hang_object", of.String(), objects)],
		missing: uint32(t.integer("hang_missing", 1, 1, math.MaxInt32)),
		asleep:  t.choice("hang_proof", asleep, []string{asleep, waiting}) == asleep,
	}
}

// checkBefore fails if a time is not before the end of its period.
func (t *table) checkBefore(key string, at, length int64) {
	if at >= length {
		t.fail(key, "is %v; allowed: less than for (%v)", time.Duration(at), time.Duration(length))
	}
}

// scope returns the kind of object of the events, or ScopeUnknown if there are none.
func (b *behaviour) scope() verbs.Scope {
	if b.count == 0 {
		return verbs.ScopeUnknown
	}
	return b.typ.Scope()
}

// runsIn returns the processes that exist during a part of (from, until].
func (e *appEntry) runsIn(from, until int64) []processRun {
	var starts []int64
	if start, ok := e.last(from); ok && e.end(start) > from {
		starts = append(starts, start)
	}
	for start := e.next(from); start <= until && start != never; start = e.next(start) {
		starts = append(starts, start)
	}
	var runs []processRun
	for _, start := range starts {
		for n := range e.processes {
			runs = append(runs, e.newRun(start, n))
		}
	}
	return runs
}

// newRun returns the n-th process that starts at a time.
func (e *appEntry) newRun(start int64, n int) processRun {
	r := processRun{process: e.process(start, n), from: start, to: e.end(start), reads: e.reads, hang: e.hang}
	number := (e.number + uint32(n)) & maxNumber
	r.hang.number = number
	if r.hang.at != never {
		r.hang.at += start
	}
	if e.count == 0 {
		return r
	}
	s := stream{schedule: e.events.shift(start), typ: e.typ, burst: e.count, skipped: e.skips, gone: never}
	if e.typ.Scope() != verbs.ScopeDevice {
		s.number = number
	}
	if e.typ.Scope() == r.hang.object {
		s.gone = r.hang.at
	}
	r.streams = []stream{s}
	return r
}

func (e *appEntry) process(start int64, n int) Process {
	return Process{PID: e.thread + n, Start: start, Name: e.name, Unit: e.unit}
}
