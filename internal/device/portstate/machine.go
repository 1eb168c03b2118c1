package portstate

import (
	"time"

	"rdma_events/internal/device/verbs"
)

const (
	// Settle is the least time between two queries that overrule the events. A query
	// right after an event often still sees the state before it (on rdma_rxe in a quarter
	// of the cases, for a few milliseconds).
	Settle = 50 * time.Millisecond

	// Patience is how long the event of a change that a query has seen may still be on
	// its way: the kernel passes events to a work queue, and the reader may wait for a
	// CPU.
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
	Missed      uint64 // how far link_downed ran ahead of the down transitions
	Phantoms    uint64 // events that named the state already held
	Late        uint64 // events whose transition a query had already found
	Early       uint64 // events before the baseline or after the removal
}

// Machine is the state of one port. The zero Machine has no state and waits for Opened.
// Its methods must not be called concurrently.
//
// Events and queries report the same link, but neither is in step with it. An event is
// read some time after the link has changed. A query may see the link ahead of events
// that are still queued, or behind the event just read. So:
//
//   - Events change the state in the order read. An event that names the state already
//     held is a phantom. Of a run of equal events only the first can be a transition.
//   - A reading whose query began before the last event was read is stale.
//   - A reading that differs is only a doubt. It becomes a transition, at the time of
//     that first reading, when another reading at least Settle later has the same state
//     with no event in between. A query behind its event is thus never counted, and
//     during a storm the events decide alone.
//   - After a transition that a query has found, the event of that transition may follow
//     within Patience. The event is late then, and is neither a phantom nor a transition.
//     Because events alternate, this makes counts exact however far a query is ahead: the
//     first event still queued always names the state that the query has found.
//   - The time since a doubt arose is counted as down only once the doubt is gone, so
//     that Down never falls.
type Machine struct {
	phase   phase
	known   bool
	state   verbs.PortState
	entered int64 // when state was entered, or first seen
	since   bool  // entered is the time of a change
	dropped bool  // left active, and not absent since

	event   int64 // when the last event was read
	doubt   doubt
	pending pending
	links   linkDowns

	down, downReported int64
	downs              uint64
	counts             View // only its counters are used
}

type phase int8

const (
	closed phase = iota // readings are ignored, and events count only as early
	opened              // the next reading is the baseline
	following
)

// doubt is a reading that differs and waits for a second one.
type doubt struct {
	set   bool
	state verbs.PortState
	at    int64
}

// pending is the event that may still follow a transition found by a query.
type pending struct {
	set   bool
	event verbs.PortState
	until int64
}

// Opened handles the opening of the device by a worker: the next reading is a baseline,
// and events before it cause no transition.
func (m *Machine) Opened() {
	m.phase, m.doubt, m.pending = opened, doubt{}, pending{}
}

// Removed handles the removal of the device at now, CLOCK_MONOTONIC ns. It reports the
// transition to absent, if the state was known. Events and readings from then until
// Opened do not change the state.
func (m *Machine) Removed(now int64) (Change, bool) {
	m.phase = closed
	if !m.known || m.state == verbs.PortAbsent {
		return Change{}, false
	}
	return m.move(verbs.PortAbsent, verbs.WitnessEvent, now), true
}

// Event handles a run of equal events and reports the transition it causes. Events other
// than port_active and port_err do not name a state.
func (m *Machine) Event(r *verbs.Run) (Change, bool) {
	to, ok := named(r.Type)
	if !ok || r.Count == 0 {
		return Change{}, false
	}
	if m.phase != following {
		m.counts.Early += r.Count
		return Change{}, false
	}
	m.event, m.doubt = max(m.event, r.Last), doubt{}
	late := m.pending.set && m.pending.event == to && r.First <= m.pending.until
	m.pending = pending{}
	switch {
	case late:
		m.counts.Late++
	case to == m.state:
		m.counts.Phantoms++
	default:
		m.counts.Phantoms += r.Count - 1
		return m.move(to, verbs.WitnessEvent, r.First), true
	}
	m.counts.Phantoms += r.Count - 1
	return Change{}, false
}

func named(t verbs.EventType) (verbs.PortState, bool) {
	switch t {
	case verbs.EventPortActive:
		return verbs.PortActive, true
	case verbs.EventPortErr:
		return verbs.PortDown, true
	}
	return 0, false
}

// Reading handles the answer of a query that began at mono, CLOCK_MONOTONIC ns. It reports
// the transition that the answer causes or confirms.
func (m *Machine) Reading(mono int64, a *verbs.PortAttr) (Change, bool) {
	switch {
	case m.phase == closed, m.phase == following && mono < m.event:
		return Change{}, false
	case m.phase == opened:
		return m.baseline(mono, a)
	}
	c, changed := m.judge(mono, a.State)
	// This follows the transition, so that the drop just found does not count as missed.
	m.links.compare(mono, a, m.downs)
	return c, changed
}

func (m *Machine) baseline(mono int64, a *verbs.PortAttr) (Change, bool) {
	m.phase = following
	if !m.known {
		m.known, m.state, m.entered = true, a.State, mono
		m.links.compare(mono, a, m.downs)
		return Change{}, false
	}
	if m.state == verbs.PortAbsent {
		// A device that comes back has a new counter.
		m.links.forget()
	}
	var c Change
	changed := a.State != m.state
	if changed {
		c = m.move(a.State, verbs.WitnessReopen, mono)
		m.expect(&c, mono)
	}
	m.links.compare(mono, a, m.downs)
	return c, changed
}

func (m *Machine) judge(mono int64, s verbs.PortState) (Change, bool) {
	switch {
	case s == m.state:
		m.doubt = doubt{}
	case !m.doubt.set || m.doubt.state != s:
		m.doubt = doubt{set: true, state: s, at: mono}
	case mono-m.doubt.at >= int64(Settle):
		c := m.move(s, verbs.WitnessQuery, m.doubt.at)
		m.expect(&c, mono)
		return c, true
	}
	return Change{}, false
}

// expect records which event of the change c, found by a query, may still come.
func (m *Machine) expect(c *Change, mono int64) {
	m.pending = pending{until: mono + int64(Patience)}
	switch {
	case c.To == verbs.PortActive:
		m.pending.set, m.pending.event = true, verbs.PortActive
	case c.From == verbs.PortActive:
		// Also when the query found init or armed: the port left active with port_err.
		m.pending.set, m.pending.event = true, verbs.PortDown
	}
}

func (m *Machine) move(to verbs.PortState, w verbs.Witness, at int64) Change {
	at = max(at, m.entered)
	c := Change{From: m.state, To: to, Witness: w, At: at, HasLasted: m.since}
	if m.since {
		c.Lasted = at - m.entered
	}
	if isDown(m.state) {
		m.down += at - m.entered
	}
	m.count(c.From, to)
	m.state, m.entered, m.since = to, at, true
	m.doubt, m.pending = doubt{}, pending{}
	return c
}

func (m *Machine) count(from, to verbs.PortState) {
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
		m.links.explain()
	}
}

// isDown reports whether time in s counts as down.
func isDown(s verbs.PortState) bool { return s != verbs.PortActive && s != verbs.PortAbsent }

// isDownward reports whether a driver counts from > to in link_downed: out of
// active, or out of a link that was still training.
func isDownward(from, to verbs.PortState) bool {
	return from != verbs.PortAbsent && (from == verbs.PortActive || to == verbs.PortDown)
}

// View returns the state and the counters at now, CLOCK_MONOTONIC ns. Neither a counter
// nor Down is ever less than in an earlier View.
func (m *Machine) View(now int64) View {
	v := m.counts
	v.Known, v.State = m.known, m.state
	v.Since, v.HasSince = m.entered, m.since
	v.Missed = m.links.missed
	// An event may be older than the last View, which counted the state before it as lasting.
	m.downReported = max(m.downReported, m.downAt(now))
	v.Down = m.downReported
	return v
}

func (m *Machine) downAt(now int64) int64 {
	if !m.known || !isDown(m.state) {
		return m.down
	}
	if m.doubt.set && !isDown(m.doubt.state) {
		now = min(now, m.doubt.at)
	}
	return m.down + max(0, now-m.entered)
}
