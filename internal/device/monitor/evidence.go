package monitor

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/gidtable"
	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

const (
	// holdEvidence is how long after a trigger it is judged. What explains it may come later than
	// the snapshot: the GID table is read again when its events have settled, and the uevent of a
	// removal comes after the port's own event.
	holdEvidence = int64(time.Second)
	// evidenceLimit is how long a snapshot may be incomplete. No part of one is begun later than
	// 5 s after the first, so that by then one hangs.
	evidenceLimit = int64(6 * time.Second)
	// maxWaiting is how many triggers of a port wait to be judged. A worker sends ten a minute.
	maxWaiting = 16
	// maxFacts is how many changes of a port are remembered, for the triggers that wait.
	maxFacts = 16
	// topCounters is how many counters stand in the field top.
	topCounters = 8
)

// trigger is something that happened to a port and is not judged yet.
type trigger struct {
	why   verbs.Trigger
	at    int64           // CLOCK_MONOTONIC ns
	begun int64           // when the first part of the snapshot came, long after at if the pace held it up
	snap  *verbs.Snapshot // nil: none came
	// before are the counters of the reading before the snapshot's, which was at base,
	// CLOCK_MONOTONIC ns; 0: never.
	before verbs.Counters
	base   int64
}

// is reports whether a snapshot is about the trigger. That a call is stuck is found both here
// and by the worker, at two moments.
func (w *trigger) is(s *verbs.Snapshot) bool {
	switch {
	case w.why != s.Trigger:
		return false
	case w.snap != nil:
		return w.snap.At == s.At
	}
	return w.at == s.At || w.why == verbs.TriggerCommand
}

// facts is what a port's triggers are judged by.
type facts struct {
	waiting    []*trigger
	judged     []trigger // without their snapshots
	counters   verbs.Counters
	countersAt int64
	changes    []portstate.Change // the last ones, as are the others
	gids       []gidChanges
	smLIDs     []smLIDChange
	merged     uint64
	stamp      stamp
}

type gidChanges struct {
	at      int64 // CLOCK_MONOTONIC ns
	changes []gidtable.Change
}

type smLIDChange struct {
	at       int64 // CLOCK_MONOTONIC ns
	from, to int
}

// remember appends to a list, and forgets what is too old to matter.
func remember[T any](list []T, one T) []T {
	if len(list) == maxFacts {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, one)
}

// snapshot handles what a worker has read about a port.
func (d *Device) snapshot(s *verbs.Snapshot, t *moment) {
	p := d.port(s.Port)
	if p == nil || !d.open || !isTrigger(s.Trigger) {
		return
	}
	f := &p.facts
	before, base := f.counters, f.countersAt
	if s.Counters != nil {
		f.counters, f.countersAt = s.Clone().Counters, s.CountersAt
	}
	if s.Done {
		p.noteQuality(s, t)
	}
	if s.Trigger == verbs.TriggerBase {
		return
	}
	if s.Done {
		f.merged += s.Merged
	}
	if slices.ContainsFunc(f.judged, func(w trigger) bool { return w.why == s.Trigger && w.at == s.At }) {
		return // this part came too late
	}
	w := f.find(s)
	if w == nil {
		w = &trigger{why: s.Trigger, at: s.At}
		d.await(p, w, t)
	}
	if w.snap == nil {
		w.begun = t.mono
	}
	if w.snap == nil || w.snap.Counters == nil {
		w.before, w.base = before, base
	}
	kept := s.Clone()
	w.snap = &kept
}

// isTrigger reports whether a worker can have taken a snapshot for t. Triggers become tags, and
// a worker's library is not to be trusted with those.
func isTrigger(t verbs.Trigger) bool {
	switch t {
	case verbs.TriggerBase, verbs.TriggerState, verbs.TriggerLostEvent, verbs.TriggerLostCompletion, verbs.TriggerCommand:
		return true
	}
	typ, ok := verbs.ParseEventType(string(t))
	return ok && typ.Known() && typ.String() == string(t)
}

func (f *facts) find(s *verbs.Snapshot) *trigger {
	for _, w := range f.waiting {
		if w.is(s) {
			return w
		}
	}
	return nil
}

// await adds a trigger to those that wait. Above the limit the oldest is judged now.
func (d *Device) await(p *port, w *trigger, t *moment) {
	f := &p.facts
	if len(f.waiting) >= maxWaiting {
		d.judge(p, f.waiting[0], t)
		f.waiting = f.waiting[1:]
	}
	f.waiting = append(f.waiting, w)
}

// judgeDue judges the triggers whose facts are there.
func (d *Device) judgeDue(t *moment) {
	if d.mayBeMoving() {
		return // that it was moved or removed, once it is known, explains what waits
	}
	for _, p := range d.ports {
		p.facts.waiting = slices.DeleteFunc(p.facts.waiting, func(w *trigger) bool {
			due := w.at + holdEvidence
			if w.snap != nil && !w.snap.Done {
				due = w.begun + evidenceLimit
			}
			if t.mono < due {
				return false
			}
			d.judge(p, w, t)
			return true
		})
	}
}

// judgeAll judges all triggers now: no further fact comes.
func (d *Device) judgeAll(t *moment) {
	for _, p := range d.ports {
		for _, w := range p.facts.waiting {
			d.judge(p, w, t)
		}
		p.facts.waiting = nil
	}
}

// judge emits the evidence about a trigger.
func (d *Device) judge(p *port, w *trigger, t *moment) {
	done := trigger{why: w.why, at: w.at}
	if w.snap != nil {
		done.at = w.snap.At
	}
	p.facts.judged = remember(p.facts.judged, done)
	e := &measure.Evidence{
		Device: d.name, Port: p.port, Trigger: w.why, Cause: cause.Of(d.factsOf(p, w, t)), Triggers: 1,
		At: p.facts.stamp.next(t.wall(w.at), t.epoch),
	}
	if w.why == verbs.Trigger(verbs.EventDeviceFatal.String()) {
		e.Port = 0
	}
	s := w.snap
	if s == nil {
		e.LeftOut = "all: the device does not answer"
		d.cfg.Emit(e)
		return
	}
	e.Triggers += s.Merged
	e.HasSnapshot, e.AgeNS, e.TookNS = true, max(0, s.Mono-w.at), s.Took
	e.NetDev = s.NetDev
	if s.Link != nil {
		e.ExtState, e.ExtSubstate = s.Link.ExtState, s.Link.ExtSubstate
	}
	left := slices.Clone(s.LeftOut)
	switch {
	case s.Done:
	case t.mono-w.begun < evidenceLimit:
		left = append(left, "the rest: the worker ended before")
	default:
		left = append(left, "the rest: not answered within "+time.Duration(evidenceLimit).String())
	}
	e.LeftOut = strings.Join(left, "; ")
	if s.Counters != nil && w.base > 0 {
		e.HasBase, e.BaseAgeNS = true, s.CountersAt-w.base
		e.Deltas = cause.Compare(w.before, s.Counters)
		e.Top = e.Deltas.Top(topCounters)
	}
	d.cfg.Emit(e)
}

// factsOf returns what is known about a trigger.
func (d *Device) factsOf(p *port, w *trigger, t *moment) cause.Facts {
	since := func(mono int64) cause.At {
		if mono == 0 {
			return cause.At{}
		}
		return cause.Seen(time.Duration(mono - w.at))
	}
	f := cause.Facts{
		Trigger: w.why, LinkLayer: p.attr.LinkLayer, Removed: since(d.removedAt), Fatal: since(d.fatalAt), Stuck: d.stuckAt(w.at),
	}
	f.Before, f.After = p.around(w.at, t)
	if s := w.snap; s != nil && s.NetDev != nil {
		f.NetDev = cause.NetDev{At: since(s.Mono), AdminUp: cause.FlagOf(s.NetDev.AdminUp)}
		if s.NetDev.HasCarrier {
			f.NetDev.Carrier = cause.FlagOf(s.NetDev.Carrier)
		}
	}
	if typ, ok := verbs.ParseEventType(string(w.why)); ok {
		f.Late = d.lateBy(typ, w.at) > 0
	}
	f.Answered = w.snap != nil && w.snap.Answered
	if s := w.snap; s != nil && s.Link != nil {
		f.ExtState = cause.ExtState{At: since(s.LinkAt), Name: s.Link.ExtState}
	}
	for _, g := range p.facts.gids {
		if after := g.at - w.at; after > -int64(together) {
			f.GIDs.At = cause.Seen(max(0, time.Duration(after)))
			for _, c := range g.changes {
				f.GIDs.Add(c.Action, c.GID, c.From)
			}
		}
	}
	for _, c := range p.facts.smLIDs {
		if after := c.at - w.at; after > -int64(together) {
			f.SMLID = cause.SMLID{At: cause.Seen(max(0, time.Duration(after))), From: c.from, To: c.to}
		}
	}
	return f
}

// together is how much earlier than its event a change may be seen, since a periodic reading can
// come between the two, and how much later than its worker the host sees that a call is stuck.
const together = 100 * time.Millisecond

// around returns the states of the port before and after a trigger. They are the same if it
// changed nothing, and both unknown if the port's state is. A change that came later is another
// happening: a batch that was held up has both.
func (p *port) around(at int64, t *moment) (before, after verbs.PortState) {
	for _, c := range p.facts.changes {
		switch {
		case c.At <= at-int64(together):
		case c.At < at+holdEvidence:
			return c.From, c.To
		default:
			return c.From, c.From
		}
	}
	if v := p.machine.View(t.mono); v.Known {
		return v.State, v.State
	}
	return verbs.PortNop, verbs.PortNop
}

// stuckAt returns the last moment, until a trigger, at which a command was known to be stuck.
// The worker may know it earlier.
func (d *Device) stuckAt(at int64) cause.At {
	switch {
	case d.stuckSince == 0 || d.stuckSince > at+int64(together):
		return cause.At{}
	case d.stuckUntil == 0 || d.stuckUntil >= at:
		return cause.Seen(0)
	}
	return cause.Seen(time.Duration(d.stuckUntil - at))
}

// noteStuck notes since when a command of the device is stuck, and until when one was. A
// device that stops to answer is a trigger by itself.
func (d *Device) noteStuck(c *command, t *moment) {
	one := slices.ContainsFunc(d.commands, func(c *command) bool { return c.stuck })
	switch {
	case one && (d.stuckSince == 0 || d.stuckUntil > 0):
		d.stuckSince, d.stuckUntil = t.mono, 0
	case !one:
		d.stuckUntil = t.mono
	}
	known := func(w *trigger) bool { return w.why == verbs.TriggerCommand }
	if p := d.port(c.port); c.stuck && p != nil && d.cfg.Evidence && !slices.ContainsFunc(p.facts.waiting, known) {
		d.await(p, &trigger{why: verbs.TriggerCommand, at: t.mono}, t)
	}
}

// explainRemoval judges what waits, and says that the device is gone.
func (d *Device) explainRemoval(t *moment) {
	if !d.cfg.Evidence {
		return
	}
	d.removedAt = d.goneAt
	d.judgeAll(t)
	d.explainDeparture(cause.DriverRemoved, "all: the device is gone", t)
}

// explainDeparture emits why the device went, and forgets the counters of the one that went.
func (d *Device) explainDeparture(cause cause.Cause, leftOut string, t *moment) {
	if !d.cfg.Evidence {
		return
	}
	for _, p := range d.ports {
		p.facts.counters, p.facts.countersAt = nil, 0
	}
	d.cfg.Emit(&measure.Evidence{
		Device: d.name, Trigger: verbs.TriggerRemoved, Cause: cause, Triggers: 1,
		LeftOut: leftOut, At: d.removedStamp.next(t.wall(d.goneAt), t.epoch),
	})
}
