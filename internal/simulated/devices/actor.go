package devices

import (
	"fmt"
	"slices"
	"sync"

	"rdma_events/internal/device/verbs"
)

// Actor is a simulated process that is controlled by method calls, in addition to the processes of the scenario. It has one device open,
// which it closes after it has read the event of the device's removal. Its methods may be called concurrently and do not block.
type Actor struct {
	w *World
	h *hardware
	processRun
	readTimes readTimes
}

// actorSet has the actors of a world.
type actorSet struct {
	mu     sync.Mutex
	actors []*Actor
	seen   int64 // callers know the steps up to this time, so they must not change
}

// readTimes has the times at which an actor has read, and up to which queue time.
type readTimes []struct{ when, upTo int64 }

func (m readTimes) readAt(queued int64) int64 {
	for _, r := range m {
		if r.upTo >= queued {
			return r.when
		}
	}
	return never
}

func (m readTimes) readUpTo(t int64) int64 {
	upTo := int64(0)
	for _, r := range m {
		if r.when <= t {
			upTo = r.upTo
		}
	}
	return upTo
}

// Act starts a process that has a device open. It receives the device's events and the events of QueueEvents.
func (w *World) Act(device, name, unit string) (*Actor, error) {
	h := w.findDevice(device, w.clock())
	if h == nil {
		return nil, fmt.Errorf("start %s on %s: %w", name, device, verbs.ErrNoDevice)
	}
	const firstActor = 1 << 30 // above the processes of scenarios
	w.actors.mu.Lock()
	defer w.actors.mu.Unlock()
	a := &Actor{w: w, h: h}
	start := a.changeTime()
	a.processRun = processRun{
		process: Process{PID: firstActor + len(w.actors.actors), Start: start, Name: name, Unit: unit},
		from:    start, to: never, hang: hang{at: never},
	}
	w.actors.actors = append(w.actors.actors, a)
	return a, nil
}

// Process returns the simulated process.
func (a *Actor) Process() Process { return a.process }

// QueueEvents queues events of a type for the process, one after the other, for the object with a number.
func (a *Actor) QueueEvents(typ verbs.EventType, number uint32, count int) {
	a.change(func(now int64) {
		// The last event is queued now, the others just before it, but after the steps that callers know.
		first := max(now-int64(count)+1, a.w.actors.seen+1)
		for i := range count {
			a.streams = append(a.streams, stream{schedule: schedule{at: first + int64(i)}, typ: typ, number: number, burst: 1, gone: never})
		}
	})
}

// Read lets the process read the first count unread events, or all if count is 0.
func (a *Actor) Read(count int) {
	a.change(func(now int64) {
		upTo := now
		if unread := a.unread(now); count > 0 && count < len(unread) {
			upTo = unread[count-1]
		}
		a.readTimes = append(a.readTimes, struct{ when, upTo int64 }{now, upTo})
	})
}

// unread returns the queue times of the unread events of objects.
func (a *Actor) unread(now int64) []int64 {
	var came []int64
	for i := range a.streams {
		if s := &a.streams[i]; s.at > a.readTimes.readUpTo(now) && s.gone == never {
			came = append(came, s.at)
		}
	}
	slices.Sort(came)
	return came
}

// Destroy lets a thread of the process destroy an object. If acknowledgements are missing, the thread waits until Acknowledge. A process
// can call it once.
func (a *Actor) Destroy(object verbs.Scope, number, missing uint32) {
	a.change(func(now int64) {
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
func (a *Actor) Acknowledge() { a.change(func(now int64) { a.hang.length = now - a.hang.at }) }

// Exit ends the process.
func (a *Actor) Exit() { a.change(func(now int64) { a.to = now }) }

// change changes the future of the process.
func (a *Actor) change(change func(now int64)) {
	a.w.actors.mu.Lock()
	defer a.w.actors.mu.Unlock()
	change(a.changeTime())
}

// changeTime returns the first time at which steps may still change: now, or later if callers know the steps up to a later time.
func (a *Actor) changeTime() int64 { return max(a.w.clock(), a.w.actors.seen+1) }

// runs returns the processes on a device. Their steps up to until do not change any more.
func (s *actorSet) runs(h *hardware, until int64) []processRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, until)
	var runs []processRun
	for _, a := range s.actors {
		if a.h == h {
			r := a.processRun
			r.streams, r.reads = slices.Clone(a.streams), slices.Clone(a.readTimes)
			runs = append(runs, r)
		}
	}
	return runs
}
