package portstate

import (
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
)

const (
	// Settle is the least time between two queries that together overrule the events. A query
	// right after an event often still returns the state before the event (on rdma_rxe in a
	// quarter of the cases, for a few milliseconds).
	Settle = 50 * time.Millisecond

	// Patience is the time within which the event of a change must arrive after a query has
	// found the change: the kernel passes events to a work queue, and the reader may wait
	// for a CPU.
	Patience = time.Second
)

// Change is one transition.
type Change struct {
	From, To  verbs.PortState
	Witness   verbs.Witness
	At        int64 // CLOCK_MONOTONIC ns
	Lasted    int64 // ns in From
	HasLasted bool  // false when From began before the first reading
}

// View is the state of a Machine, with its counters.
type View struct {
	Known    bool // false until the first reading
	State    verbs.PortState
	Since    int64 // CLOCK_MONOTONIC ns of the last change
	HasSince bool  // false until the first change
	Down     int64 // ns neither active nor absent, the present outage included

	Transitions uint64
	Flaps       uint64 // active > not active > active, without absent in between
	Missed      uint64 // down transitions that only link_downed counted
	Phantoms    uint64 // events that named the present state
	Late        uint64 // events whose transition a query had already found
	Early       uint64 // events before the baseline or after the removal
}

// Machine is the state of one port. The zero Machine has no state and waits for Opened.
// Its methods must not be called concurrently.
//
// Events and queries report the same link, but both may lag behind it. An event is
// read some time after the link has changed. A query may return a newer state than events
// that are still queued, or an older state than the event just read. So:
//
//   - Events change the state in the order in which they are read. An event that names the
//     present state is a phantom. Of a run of equal events only the first can be a transition.
//   - A reading whose query began before the last event was read is stale and ignored.
//   - A reading that differs from the state is only a candidate. It becomes a transition, at
//     the time of that first reading, when another reading at least Settle later has the same
//     state with no event in between. A query behind its event is thus never counted, and
//     during a storm the events alone decide.
//   - When queries have found transitions, the events of these transitions may arrive up to
//     Patience later, in the same order. Such a late event is neither a phantom nor a
//     transition.
//   - Time since a candidate for an up state appeared counts as down only once the candidate
//     is dropped, so that Down never falls.
type Machine struct {
	phase       phase
	known       bool
	state       verbs.PortState
	entered     int64 // when state was entered, or first seen
	sinceChange bool  // entered is the time of a change
	dropped     bool  // the port has left active, and has not been absent since

	lastEvent int64 // when the last event was read, CLOCK_MONOTONIC ns
	candidate candidate
	pending   []pendingEvent // in the order of the transitions
	linkDowns linkDowns

	down, downReported int64
	downs              uint64
	counts             View // only its counters are used
}

type phase int8

const (
	closed phase = iota // readings are ignored, and events only count as early
	opened              // the next reading is the baseline
	following
)

// candidate is a reading that differs from the state and waits for a second reading to confirm it.
type candidate struct {
	set   bool
	state verbs.PortState
	at    int64
}

// pendingEvent is the event that may still follow a transition found by a query.
type pendingEvent struct {
	event verbs.PortState
	until int64
}

// HandleOpened handles the opening of the device by a worker: the next reading is a
// baseline, and events before it cause no transition.
func (m *Machine) HandleOpened() {
	m.phase, m.candidate, m.pending = opened, candidate{}, nil
}

// HandleRemoved handles the removal of the device at now, CLOCK_MONOTONIC ns. It reports the
// transition to absent, if the state was known. Events and readings from then until
// HandleOpened do not change the state.
func (m *Machine) HandleRemoved(now int64) (Change, bool) {
	m.phase = closed
	if !m.known || m.state == verbs.PortAbsent {
		return Change{}, false
	}
	return m.changeState(verbs.PortAbsent, verbs.WitnessEvent, now), true
}

// HandleEvents handles a run of equal events and reports the transition that it causes.
// Events other than port_active and port_err do not name a state and are ignored.
func (m *Machine) HandleEvents(r *verbs.Run) (Change, bool) {
	to, ok := stateOf(r.Type)
	if !ok || r.Count == 0 {
		return Change{}, false
	}
	if m.phase != following {
		m.counts.Early += r.Count
		return Change{}, false
	}
	m.lastEvent, m.candidate = max(m.lastEvent, r.Last), candidate{}
	switch {
	case m.takePending(to, r.First):
		m.counts.Late++
	case to == m.state:
		m.counts.Phantoms++
	default:
		m.counts.Phantoms += r.Count - 1
		return m.changeState(to, verbs.WitnessEvent, r.First), true
	}
	m.counts.Phantoms += r.Count - 1
	return Change{}, false
}

// takePending reports whether an event that was read at first may belong to a transition that a query has found. It removes that
// event and the events before it from the pending ones. Any other event removes all of them: the ones before it must have arrived.
func (m *Machine) takePending(to verbs.PortState, first int64) bool {
	i := slices.IndexFunc(m.pending, func(p pendingEvent) bool { return p.event == to && first <= p.until })
	if i < 0 {
		m.pending = nil
		return false
	}
	m.pending = m.pending[i+1:]
	return true
}

// stateOf returns the state that an event names, and whether it names one.
func stateOf(t verbs.EventType) (verbs.PortState, bool) {
	switch t {
	case verbs.EventPortActive:
		return verbs.PortActive, true
	case verbs.EventPortErr:
		return verbs.PortDown, true
	}
	return 0, false
}

// HandleReading handles the answer of a query that began at mono, CLOCK_MONOTONIC ns. It
// reports the transition that the answer causes or confirms.
func (m *Machine) HandleReading(mono int64, a *verbs.PortAttr) (Change, bool) {
	switch {
	case m.phase == closed, m.phase == following && mono < m.lastEvent:
		return Change{}, false
	case m.phase == opened:
		return m.takeBaseline(mono, a)
	}
	c, changed := m.compareState(mono, a.State)
	// Compare only now, so that a drop that this reading has confirmed does not count as missed.
	m.linkDowns.compareCounter(mono, a, m.downs)
	return c, changed
}

// takeBaseline handles the first reading after the device was opened.
func (m *Machine) takeBaseline(mono int64, a *verbs.PortAttr) (Change, bool) {
	m.phase = following
	if !m.known {
		m.known, m.state, m.entered = true, a.State, mono
		m.linkDowns.compareCounter(mono, a, m.downs)
		return Change{}, false
	}
	if m.state == verbs.PortAbsent {
		// The counter of a device that comes back starts anew.
		m.linkDowns.restart()
	}
	var c Change
	changed := a.State != m.state
	if changed {
		c = m.changeByQuery(a.State, verbs.WitnessReopen, mono, mono)
	}
	m.linkDowns.compareCounter(mono, a, m.downs)
	return c, changed
}

// compareState compares the state of a reading with the Machine's, and reports the transition that the reading confirms.
func (m *Machine) compareState(mono int64, s verbs.PortState) (Change, bool) {
	switch {
	case s == m.state:
		m.candidate = candidate{}
	case !m.candidate.set || m.candidate.state != s:
		m.candidate = candidate{set: true, state: s, at: mono}
	case mono-m.candidate.at >= int64(Settle):
		return m.changeByQuery(s, verbs.WitnessQuery, m.candidate.at, mono), true
	}
	return Change{}, false
}

// changeByQuery enters a state that the query at mono has found or confirmed, and records which event may still follow.
func (m *Machine) changeByQuery(to verbs.PortState, w verbs.Witness, at, mono int64) Change {
	pending := slices.DeleteFunc(m.pending, func(p pendingEvent) bool { return p.until < mono })
	c := m.changeState(to, w, at)
	until := mono + int64(Patience)
	switch {
	case c.To == verbs.PortActive:
		pending = append(pending, pendingEvent{verbs.PortActive, until})
	case c.From == verbs.PortActive:
		// Also if the query found init or armed: a port leaves active with port_err.
		pending = append(pending, pendingEvent{verbs.PortDown, until})
	}
	m.pending = pending
	return c
}

// changeState enters a state at at, or at the time of the last change if that is later.
func (m *Machine) changeState(to verbs.PortState, w verbs.Witness, at int64) Change {
	at = max(at, m.entered)
	c := Change{From: m.state, To: to, Witness: w, At: at, HasLasted: m.sinceChange}
	if m.sinceChange {
		c.Lasted = at - m.entered
	}
	if isDown(m.state) {
		m.down += at - m.entered
	}
	m.countTransition(c.From, to)
	m.state, m.entered, m.sinceChange = to, at, true
	m.candidate, m.pending = candidate{}, nil
	return c
}

// countTransition updates the counts of transitions, flaps and down transitions.
func (m *Machine) countTransition(from, to verbs.PortState) {
	m.counts.Transitions++
	switch {
	case to == verbs.PortAbsent:
		m.dropped = false
		return
	case to == verbs.PortActive && m.dropped:
		m.counts.Flaps++
		m.dropped = false
	case from == verbs.PortActive:
		m.dropped = true
	}
	if isDownward(from, to) {
		m.downs++
		m.linkDowns.explainOne()
	}
}

// isDown reports whether time in s counts as down.
func isDown(s verbs.PortState) bool { return s != verbs.PortActive && s != verbs.PortAbsent }

// isDownward reports whether a driver counts the transition from > to in link_downed: the
// port leaves active, or a link in training goes down.
func isDownward(from, to verbs.PortState) bool {
	return from != verbs.PortAbsent && (from == verbs.PortActive || to == verbs.PortDown)
}

// View returns the state and the counters at now, CLOCK_MONOTONIC ns. Neither a counter
// nor Down is ever less than in an earlier View.
func (m *Machine) View(now int64) View {
	v := m.counts
	v.Known, v.State = m.known, m.state
	v.Since, v.HasSince = m.entered, m.sinceChange
	v.Missed = m.linkDowns.missed
	// An event may be older than the last View, which counted time up to that View as down.
	m.downReported = max(m.downReported, m.downTime(now))
	v.Down = m.downReported
	return v
}

// downTime returns the time down until now, ns. It may be less than at an earlier call, if an event was read late.
func (m *Machine) downTime(now int64) int64 {
	if !m.known || !isDown(m.state) {
		return m.down
	}
	if m.candidate.set && !isDown(m.candidate.state) {
		now = min(now, m.candidate.at)
	}
	return m.down + max(0, now-m.entered)
}
