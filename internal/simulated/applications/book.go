package applications

import (
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/simulated/devices"
)

// book has the counts of all processes since the source began.
type book struct {
	w         *devices.World
	began     int64
	hangAfter int64

	before   map[devices.AppContext]devices.AppQueue // what was in the queues that were not seen yet
	pages    map[devices.AppContext]page             // of what is open and was seen
	nameless map[string]*account                     // by device
	accounts []*account                              // in the order in which they were seen first

	events []trace.Event // since the last Snapshot
	waits  []wait        // that last
	lost   uint64
	full   uint64
}

// page is where the steps of an opened device are counted.
type page struct {
	account *account
	queue   *queue
}

// wait is a thread that waits in a destroy.
type wait struct {
	trace.Hang
	of devices.AppContext
}

func newBook(w *devices.World, began int64, hangAfter time.Duration) *book {
	b := &book{
		w: w, began: began, hangAfter: int64(hangAfter), before: map[devices.AppContext]devices.AppQueue{},
		pages: map[devices.AppContext]page{}, nameless: map[string]*account{},
	}
	for _, q := range w.AppQueues(began) {
		b.before[q.AppContext] = q
	}
	return b
}

// add counts what has happened.
func (b *book) add(steps []devices.AppStep) {
	for i := range steps {
		s := &steps[i]
		switch s.What {
		case devices.AppClosed:
			b.close(s.AppContext)
		case devices.AppDestroyed:
			b.destroyed(s)
		default:
			p := b.page(s)
			p.account.add(p.queue, s, s.Queued > b.began)
			b.recordStep(p.account, s)
		}
	}
}

// page returns where a step is counted. A process that is seen first gets an account if there is place for it.
func (b *book) page(s *devices.AppStep) page {
	c := s.AppContext
	if p, ok := b.pages[c]; ok {
		return p
	}
	var p page
	if b.w.TracerFull(s.At) {
		b.full++
		p.account = b.ofNameless(c.Device)
	} else {
		p.account = b.newAccount(c.Device, c.Process.Identity())
	}
	p.queue = p.account.join(b.before[c])
	delete(b.before, c)
	b.pages[c] = p
	return p
}

func (b *book) ofNameless(device string) *account {
	if b.nameless[device] == nil {
		b.nameless[device] = b.newAccount(device, identity.Process{})
	}
	return b.nameless[device]
}

func (b *book) newAccount(device string, p identity.Process) *account {
	a := &account{App: trace.App{Device: device, Process: p}}
	b.accounts = append(b.accounts, a)
	return a
}

// recordStep notes the events that a step queues, or the wait that begins with it.
func (b *book) recordStep(a *account, s *devices.AppStep) {
	switch {
	case s.What == devices.AppDestroys:
		b.waits = append(b.waits, wait{of: s.AppContext, Hang: trace.Hang{
			Device: s.Device, Process: s.Process.Identity(), Thread: s.Process.PID, Object: s.Object, Number: s.Number,
			Since: s.At, Missing: s.Missing, Proof: proof(s.Asleep),
		}})
	case (s.What == devices.AppQueued || s.What == devices.AppSkipped) && a.named():
		n := min(s.Count, b.room(s.At))
		b.lost += s.Count - n
		for range n {
			b.events = append(b.events, trace.Event{Device: a.Device, Process: a.Process, Type: s.Type, Number: s.Number, At: s.At})
		}
	}
}

// room returns how many records find a place at a moment. The rest is lost.
func (b *book) room(at int64) uint64 {
	if b.w.TracerLoses(at) {
		return 0
	}
	return uint64(trace.MaxEvents - len(b.events))
}

func (b *book) close(c devices.AppContext) {
	if p, ok := b.pages[c]; ok {
		p.account.leave(p.queue)
	}
	delete(b.pages, c)
}

func (b *book) destroyed(s *devices.AppStep) {
	b.waits = slices.DeleteFunc(b.waits, func(w wait) bool { return w.of == s.AppContext })
}

// snapshot returns what has changed since the one before.
func (b *book) snapshot(now int64) *trace.Update {
	s := &trace.Update{Mono: now, Events: b.events, Hangs: b.hangs(now), Lost: b.lost, Full: b.full}
	b.events = nil
	for _, a := range b.accounts {
		if a.changed && len(s.Apps) < trace.MaxApps {
			s.Apps = append(s.Apps, a.report())
		}
		if a.named() && !a.Ended {
			s.Processes++
		}
	}
	b.accounts = slices.DeleteFunc(b.accounts, func(a *account) bool { return a.Ended && !a.changed })
	return s
}

// hangs returns the waits that have lasted long enough.
func (b *book) hangs(now int64) []trace.Hang {
	var hangs []trace.Hang
	for i := range b.waits {
		if w := &b.waits[i]; now-w.Since >= b.hangAfter && len(hangs) < trace.MaxHangs {
			hangs = append(hangs, w.Hang)
		}
	}
	return hangs
}

func proof(asleep bool) trace.Proof {
	if asleep {
		return trace.ProofAsleep
	}
	return trace.ProofWaiting
}
