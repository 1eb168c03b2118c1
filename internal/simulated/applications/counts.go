package applications

import (
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/simulated/devices"
)

// processCounts has the counts of all processes since the start of the source.
type processCounts struct {
	w         *devices.World
	began     int64
	hangAfter int64

	before   map[devices.AppContext]devices.AppQueue // events in the queues that have not been seen yet
	targets  map[devices.AppContext]stepTarget       // open queues that have been seen
	nameless map[string]*account                     // counts of processes without space, by device
	accounts []*account                              // in the order of their first occurrence

	events []trace.Event // events since the last Update
	waits  []wait        // current waits
	lost   uint64
	full   uint64
}

// stepTarget has the counts to which the steps of an open device are added.
type stepTarget struct {
	account *account
	queue   *queue
}

// wait is a thread that waits while it destroys an object.
type wait struct {
	trace.Hang
	of devices.AppContext
}

func newProcessCounts(w *devices.World, began int64, hangAfter time.Duration) *processCounts {
	b := &processCounts{
		w: w, began: began, hangAfter: int64(hangAfter), before: map[devices.AppContext]devices.AppQueue{},
		targets: map[devices.AppContext]stepTarget{}, nameless: map[string]*account{},
	}
	for _, q := range w.AppQueues(began) {
		b.before[q.AppContext] = q
	}
	return b
}

// addSteps counts steps.
func (b *processCounts) addSteps(steps []devices.AppStep) {
	for i := range steps {
		s := &steps[i]
		switch s.What {
		case devices.AppClosed:
			b.closeContext(s.AppContext)
		case devices.AppDestroyed:
			b.endWait(s)
		default:
			p := b.targetOf(s)
			p.account.addStep(p.queue, s, s.Queued > b.began)
			b.recordStep(p.account, s)
		}
	}
}

// targetOf returns the counts for a step. A process that appears for the first time gets an account of its own if the tracer has space.
func (b *processCounts) targetOf(s *devices.AppStep) stepTarget {
	c := s.AppContext
	if p, ok := b.targets[c]; ok {
		return p
	}
	var p stepTarget
	if b.w.TracerFull(s.At) {
		b.full++
		p.account = b.namelessAccount(c.Device)
	} else {
		p.account = b.newAccount(c.Device, c.Process.Identity())
	}
	p.queue = p.account.addQueue(b.before[c])
	delete(b.before, c)
	b.targets[c] = p
	return p
}

func (b *processCounts) namelessAccount(device string) *account {
	if b.nameless[device] == nil {
		b.nameless[device] = b.newAccount(device, identity.Process{})
	}
	return b.nameless[device]
}

func (b *processCounts) newAccount(device string, p identity.Process) *account {
	a := &account{App: trace.App{Device: device, Process: p}}
	b.accounts = append(b.accounts, a)
	return a
}

// recordStep records the events of a step, or the wait that begins with it.
func (b *processCounts) recordStep(a *account, s *devices.AppStep) {
	switch {
	case s.What == devices.AppDestroys:
		b.waits = append(b.waits, wait{of: s.AppContext, Hang: trace.Hang{
			Device: s.Device, Process: s.Process.Identity(), Thread: s.Process.PID, Object: s.Object, Number: s.Number,
			Since: s.At, Missing: s.Missing, Proof: proofOf(s.Asleep),
		}})
	case (s.What == devices.AppQueued || s.What == devices.AppSkipped) && a.hasName():
		n := min(s.Count, b.freeRecords(s.At))
		b.lost += s.Count - n
		for range n {
			b.events = append(b.events, trace.Event{Device: a.Device, Process: a.Process, Type: s.Type, Number: s.Number, At: s.At})
		}
	}
}

// freeRecords returns the number of events for which there is space at a time. Further events are lost.
func (b *processCounts) freeRecords(at int64) uint64 {
	if b.w.TracerLoses(at) {
		return 0
	}
	return uint64(trace.MaxEvents - len(b.events))
}

func (b *processCounts) closeContext(c devices.AppContext) {
	if p, ok := b.targets[c]; ok {
		p.account.removeQueue(p.queue)
	}
	delete(b.targets, c)
}

func (b *processCounts) endWait(s *devices.AppStep) {
	b.waits = slices.DeleteFunc(b.waits, func(w wait) bool { return w.of == s.AppContext })
}

// newUpdate returns the changes since the previous Update.
func (b *processCounts) newUpdate(now int64) *trace.Update {
	s := &trace.Update{Mono: now, Events: b.events, Hangs: b.hangs(now), Lost: b.lost, Full: b.full}
	b.events = nil
	for _, a := range b.accounts {
		if a.changed && len(s.Apps) < trace.MaxApps {
			s.Apps = append(s.Apps, a.current())
		}
		if a.hasName() && !a.Ended {
			s.Processes++
		}
	}
	b.accounts = slices.DeleteFunc(b.accounts, func(a *account) bool { return a.Ended && !a.changed })
	return s
}

// hangs returns the waits that have lasted for hangAfter.
func (b *processCounts) hangs(now int64) []trace.Hang {
	var hangs []trace.Hang
	for i := range b.waits {
		if w := &b.waits[i]; now-w.Since >= b.hangAfter && len(hangs) < trace.MaxHangs {
			hangs = append(hangs, w.Hang)
		}
	}
	return hangs
}

func proofOf(asleep bool) trace.Proof {
	if asleep {
		return trace.ProofAsleep
	}
	return trace.ProofWaiting
}
