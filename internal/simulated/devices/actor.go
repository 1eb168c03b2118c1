package devices

import (
	"fmt"
	"slices"
	"sync"

	"rdma_events/internal/device/verbs"
)

// Actor is a simulated process that is led by calls, beside those of the scenario. It has one device open, which it closes
// when it has read that the device was removed. Its methods may be called concurrently, and do not block.
type Actor struct {
	w *World
	h *hardware
	run
	moments moments
}

// stage has the actors of a world.
type stage struct {
	mu     sync.Mutex
	actors []*Actor
	seen   int64 // the past up to this moment is known, and does not change
}

// moments is what a process has read, and when.
type moments []struct{ when, upTo int64 }

func (m moments) at(queued int64) int64 {
	for _, r := range m {
		if r.upTo >= queued {
			return r.when
		}
	}
	return never
}

func (m moments) by(t int64) int64 {
	upTo := int64(0)
	for _, r := range m {
		if r.when <= t {
			upTo = r.upTo
		}
	}
	return upTo
}

// Act starts a process that has a device open. It gets what comes to the device, and what Cause does.
func (w *World) Act(device, name, unit string) (*Actor, error) {
	h := w.find(device, w.clock())
	if h == nil {
		return nil, fmt.Errorf("start %s on %s: %w", name, device, verbs.ErrNoDevice)
	}
	const firstActor = 1 << 30 // above the processes of scenarios
	w.stage.mu.Lock()
	defer w.stage.mu.Unlock()
	a := &Actor{w: w, h: h}
	start := a.moment()
	a.run = run{
		process: Process{PID: firstActor + len(w.stage.actors), Start: start, Name: name, Unit: unit},
		from:    start, to: never, hang: hang{at: never},
	}
	w.stage.actors = append(w.stage.actors, a)
	return a, nil
}

// Process returns who the process is.
func (a *Actor) Process() Process { return a.process }

// Cause makes events of a type come to the process, one after the other, about the object of a number.
func (a *Actor) Cause(typ verbs.EventType, number uint32, count int) {
	a.lead(func(now int64) {
		// The last comes now; those before it come just before, but after what is known.
		first := max(now-int64(count)+1, a.w.stage.seen+1)
		for i := range count {
			a.streams = append(a.streams, stream{schedule: schedule{at: first + int64(i)}, typ: typ, number: number, burst: 1, gone: never})
		}
	})
}

// Read has the process read the first events that are unread, or all if count is 0.
func (a *Actor) Read(count int) {
	a.lead(func(now int64) {
		upTo := now
		if unread := a.unread(now); count > 0 && count < len(unread) {
			upTo = unread[count-1]
		}
		a.moments = append(a.moments, struct{ when, upTo int64 }{now, upTo})
	})
}

// unread returns when the events of objects came that are unread.
func (a *Actor) unread(now int64) []int64 {
	var came []int64
	for i := range a.streams {
		if s := &a.streams[i]; s.at > a.moments.by(now) && s.gone == never {
			came = append(came, s.at)
		}
	}
	slices.Sort(came)
	return came
}

// Destroy has a thread of the process destroy an object. With acknowledgements missing the thread waits until Acknowledge. A
// process destroys in this way once.
func (a *Actor) Destroy(object verbs.Scope, number, missing uint32) {
	a.lead(func(now int64) {
		for i := range a.streams {
			if s := &a.streams[i]; s.typ.Scope() == object && s.number == number {
				s.gone = min(s.gone, now)
			}
		}
		if missing > 0 {
			a.hang = hang{at: now, length: never, object: object, number: number, missing: missing, asleep: true}
		}
	})
}

// Acknowledge ends the wait of Destroy.
func (a *Actor) Acknowledge() { a.lead(func(now int64) { a.hang.length = now - a.hang.at }) }

// Exit ends the process.
func (a *Actor) Exit() { a.lead(func(now int64) { a.to = now }) }

// lead changes the future of the process.
func (a *Actor) lead(change func(now int64)) {
	a.w.stage.mu.Lock()
	defer a.w.stage.mu.Unlock()
	change(a.moment())
}

// moment returns now, or the first moment that is not known yet.
func (a *Actor) moment() int64 { return max(a.w.clock(), a.w.stage.seen+1) }

// runs returns the processes on a device. What they do up to a moment does not change any more.
func (s *stage) runs(h *hardware, until int64) []run {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, until)
	var runs []run
	for _, a := range s.actors {
		if a.h == h {
			r := a.run
			r.streams, r.reads = slices.Clone(a.streams), slices.Clone(a.moments)
			runs = append(runs, r)
		}
	}
	return runs
}
