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
	// judgeDelay is the time from a trigger to its judgement. Facts that explain the trigger may come later than
	// the snapshot: the worker reads the GID table again when its events have settled, and the uevent of a
	// removal comes after the port's own event.
	judgeDelay = int64(time.Second)
	// snapshotLimit is the time within which a snapshot must be complete. The worker begins no part later than
	// 5 s after the first, so that a part that is missing after snapshotLimit hangs.
	snapshotLimit = int64(6 * time.Second)
	// maxWaitingTriggers limits how many triggers of a port wait to be judged. A worker sends ten a minute.
	maxWaitingTriggers = 16
	// maxFacts limits each list of remembered changes of a port.
	maxFacts = 16
	// topCounters limits the counters in the field top.
	topCounters = 8
)

// trigger is an occurrence on a port whose cause is to be judged.
type trigger struct {
	why   verbs.Trigger
	at    int64           // CLOCK_MONOTONIC ns
	event emittedRun      // the run that contains the trigger; zero: not known, or the trigger is no event
	begun int64           // when the first part of the snapshot arrived; long after at if the worker's pace delayed it
	snap  *verbs.Snapshot // nil: none arrived
	// before has the counters of the last reading before the snapshot, and base its time,
	// CLOCK_MONOTONIC ns; 0: there was none.
	before verbs.Counters
	base   int64
}

// matches reports whether a snapshot belongs to the trigger. For a stuck call their times may
// differ, since the host and the worker each detect it.
func (w *trigger) matches(s *verbs.Snapshot) bool {
	switch {
	case w.why != s.Trigger:
		return false
	case w.snap != nil:
		return w.snap.At == s.At
	}
	return w.at == s.At || w.why == verbs.TriggerCommand
}

// facts holds the triggers of a port and the facts by which they are judged. Each list of changes has the newest maxFacts.
type facts struct {
	waiting    []*trigger
	judged     []trigger // the last ones, without their snapshots
	counters   verbs.Counters
	countersAt int64
	changes    []portstate.Change
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

// appendBounded appends to a list of at most maxFacts elements, and drops the oldest one if the list is full.
func appendBounded[T any](list []T, one T) []T {
	if len(list) == maxFacts {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, one)
}

// handleSnapshot handles a part of a snapshot that a worker has taken of a port.
func (d *Device) handleSnapshot(s *verbs.Snapshot, t *moment) {
	p := d.ensurePort(s.Port)
	if p == nil || !d.open || !isTrigger(s.Trigger) {
		return
	}
	f := &p.facts
	before, base := f.counters, f.countersAt
	if s.Counters != nil {
		f.counters, f.countersAt = s.Clone().Counters, s.CountersAt
	}
	if s.Done {
		p.updateQuality(s, t)
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
	w := f.findTrigger(s)
	if w == nil {
		w = &trigger{why: s.Trigger, at: s.At, event: d.findRun(s)}
		d.addTrigger(p, w, t)
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

// isTrigger reports whether t is a trigger for which workers take snapshots. Triggers become
// tags, and a worker may send anything if its vendor's library has damaged its memory.
func isTrigger(t verbs.Trigger) bool {
	switch t {
	case verbs.TriggerBase, verbs.TriggerState, verbs.TriggerLostEvent, verbs.TriggerLostCompletion, verbs.TriggerCommand:
		return true
	}
	typ, ok := verbs.ParseEventType(string(t))
	return ok && typ.Known() && typ.String() == string(t)
}

// findTrigger returns the waiting trigger of a snapshot, nil if there is none.
func (f *facts) findTrigger(s *verbs.Snapshot) *trigger {
	for _, w := range f.waiting {
		if w.matches(s) {
			return w
		}
	}
	return nil
}

// findRun returns the run of events that contains the trigger of a snapshot, the zero value if it is not known.
func (d *Device) findRun(s *verbs.Snapshot) emittedRun {
	typ, ok := verbs.ParseEventType(string(s.Trigger))
	if !ok {
		return emittedRun{}
	}
	c, _, _ := d.ensureCounter(typ, s.Port)
	for _, r := range c.runs {
		if r.first <= s.At && s.At <= r.last {
			return r
		}
	}
	return emittedRun{}
}

// addTrigger makes a trigger wait to be judged. Above maxWaitingTriggers it judges the oldest one at once.
func (d *Device) addTrigger(p *port, w *trigger, t *moment) {
	f := &p.facts
	if len(f.waiting) >= maxWaitingTriggers {
		d.judgeTrigger(p, f.waiting[0], t)
		f.waiting = f.waiting[1:]
	}
	f.waiting = append(f.waiting, w)
}

// judgeDueTriggers judges the triggers that have waited for judgeDelay and whose snapshot is complete or late.
func (d *Device) judgeDueTriggers(t *moment) {
	if d.mayBeMoving() {
		return // the move or the removal will explain the waiting triggers
	}
	for _, p := range d.ports {
		p.facts.waiting = slices.DeleteFunc(p.facts.waiting, func(w *trigger) bool {
			due := w.at + judgeDelay
			if w.snap != nil && !w.snap.Done {
				due = w.begun + snapshotLimit
			}
			if t.mono < due {
				return false
			}
			d.judgeTrigger(p, w, t)
			return true
		})
	}
}

// judgeAllTriggers judges all waiting triggers now, because no further facts will come.
func (d *Device) judgeAllTriggers(t *moment) {
	for _, p := range d.ports {
		for _, w := range p.facts.waiting {
			d.judgeTrigger(p, w, t)
		}
		p.facts.waiting = nil
	}
}

// judgeTrigger determines the cause of a trigger from the facts so far, and emits the evidence.
func (d *Device) judgeTrigger(p *port, w *trigger, t *moment) {
	done := trigger{why: w.why, at: w.at}
	if w.snap != nil {
		done.at = w.snap.At
	}
	p.facts.judged = appendBounded(p.facts.judged, done)
	wall := t.wall(w.at)
	// The evidence must not seem older than its event, whose point has the time of the last event of the run, computed from
	// another reading of the clocks.
	if w.event.epoch == t.epoch {
		wall = max(wall, w.event.at)
	}
	e := &measure.Evidence{
		Device: d.name, Port: p.port, Trigger: w.why, Cause: cause.Of(d.causeFacts(p, w, t)), Triggers: 1,
		At: p.facts.stamp.next(wall, t.epoch),
	}
	if w.why.IsEvent(verbs.EventDeviceFatal) {
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
	case t.mono-w.begun < snapshotLimit:
		left = append(left, "the rest: the worker ended before")
	default:
		left = append(left, "the rest: not answered within "+time.Duration(snapshotLimit).String())
	}
	e.LeftOut = strings.Join(left, "; ")
	if s.Counters != nil && w.base > 0 {
		e.HasBase, e.BaseAgeNS = true, s.CountersAt-w.base
		e.Deltas = cause.Compare(w.before, s.Counters)
		e.Top = e.Deltas.Top(topCounters)
	}
	d.cfg.Emit(e)
}

// causeFacts returns the facts about a trigger.
func (d *Device) causeFacts(p *port, w *trigger, t *moment) cause.Facts {
	since := func(mono int64) cause.Moment {
		if mono == 0 {
			return cause.Moment{}
		}
		return cause.MomentAfter(time.Duration(mono - w.at))
	}
	f := cause.Facts{
		Trigger: w.why, LinkLayer: p.attr.LinkLayer, Removed: since(d.removedAt), Fatal: since(d.fatalAt), Stuck: d.lastStuck(w.at),
	}
	f.Before, f.After = p.statesAround(w, t)
	if s := w.snap; s != nil && s.NetDev != nil {
		f.NetDev = cause.NetDev{Moment: since(s.Mono), AdminUp: cause.FlagOf(s.NetDev.AdminUp)}
		if s.NetDev.HasCarrier {
			f.NetDev.Carrier = cause.FlagOf(s.NetDev.Carrier)
		}
	}
	if typ, ok := verbs.ParseEventType(string(w.why)); ok {
		f.Late = d.eventLateness(typ, w.at) > 0
	}
	f.Answered = w.snap != nil && w.snap.Answered
	if s := w.snap; s != nil && s.Link != nil {
		f.ExtState = cause.ExtState{Moment: since(s.LinkAt), Name: s.Link.ExtState}
	}
	for _, g := range p.facts.gids {
		if after := g.at - w.at; after > -int64(simultaneous) {
			f.GIDs.Moment = cause.MomentAfter(max(0, time.Duration(after)))
			for _, c := range g.changes {
				f.GIDs.Add(c.Action, c.GID, c.From)
			}
		}
	}
	for _, c := range p.facts.smLIDs {
		if after := c.at - w.at; after > -int64(simultaneous) {
			f.SMLID = cause.SMLID{Moment: cause.MomentAfter(max(0, time.Duration(after))), From: c.from, To: c.to}
		}
	}
	return f
}

// simultaneous is the largest difference in time at which two observations count as one: a periodic reading can
// show a change before its event is read, and the host detects a stuck call later than the worker.
const simultaneous = 100 * time.Millisecond

// statesAround returns the states of the port before and after a trigger. They are equal if the
// trigger changed no state, and PortNop if the port's state is unknown. A change more than judgeDelay
// after the trigger does not belong to it: a delayed batch may contain both.
//
// A port_err means that the port stopped being active. A query may have found that change up to
// portstate.Patience before the worker read the event. If the port became active shortly before, a different
// event reported that change.
func (p *port) statesAround(w *trigger, t *moment) (before, after verbs.PortState) {
	isPortErr, earliest := w.why.IsEvent(verbs.EventPortErr), w.at-int64(simultaneous)
	if isPortErr {
		earliest = w.at - int64(portstate.Patience)
	}
	for _, c := range p.facts.changes {
		switch {
		case c.At <= earliest, isPortErr && c.At <= w.at && c.To == verbs.PortActive:
		case c.At < w.at+judgeDelay:
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

// lastStuck returns the last moment before a trigger at which the host knew that a command was
// stuck. The worker may know it up to simultaneous earlier.
func (d *Device) lastStuck(at int64) cause.Moment {
	switch {
	case d.stuckSince == 0 || d.stuckSince > at+int64(simultaneous):
		return cause.Moment{}
	case d.stuckUntil == 0 || d.stuckUntil >= at:
		return cause.MomentAfter(0)
	}
	return cause.MomentAfter(time.Duration(d.stuckUntil - at))
}

// recordStuckCommand records from when until when any command of the device was stuck. A
// device that stops responding is itself a trigger.
func (d *Device) recordStuckCommand(c *command, t *moment) {
	one := slices.ContainsFunc(d.commands, func(c *command) bool { return c.stuck })
	switch {
	case one && (d.stuckSince == 0 || d.stuckUntil > 0):
		d.stuckSince, d.stuckUntil = t.mono, 0
	case !one:
		d.stuckUntil = t.mono
	}
	known := func(w *trigger) bool { return w.why == verbs.TriggerCommand }
	if p := d.ensurePort(c.port); c.stuck && p != nil && d.cfg.Evidence && !slices.ContainsFunc(p.facts.waiting, known) {
		d.addTrigger(p, &trigger{why: verbs.TriggerCommand, at: t.mono}, t)
	}
}

// emitRemovalEvidence judges the waiting triggers, and emits evidence that the driver removed the device.
func (d *Device) emitRemovalEvidence(t *moment) {
	if !d.cfg.Evidence {
		return
	}
	d.removedAt = d.goneAt
	d.judgeAllTriggers(t)
	d.emitAbsenceEvidence(cause.DriverRemoved, "all: the device is gone", t)
}

// emitAbsenceEvidence emits evidence about the absence of the device, and drops the counters of its last snapshot.
func (d *Device) emitAbsenceEvidence(cause cause.Cause, leftOut string, t *moment) {
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
