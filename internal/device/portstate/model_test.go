package portstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// model is a Machine written for clarity: it keeps all changes, and derives every number
// from their list when it is needed. It ignores a driver's link_downed.
type model struct {
	open, baselineDone bool
	state              verbs.PortState // of the first baseline
	since              int64           // of the first baseline
	changes            []Change
	read               int64           // when the last event was read
	dissenting         []observation   // readings in a row that differ from the state
	pending            []expectedEvent // the events of the changes that queries found since the last event, the oldest first
	reportedDown       int64

	phantoms, late, early uint64
}

type observation struct {
	state verbs.PortState
	at    int64
}

type expectedEvent struct {
	state verbs.PortState
	until int64
}

func (m *model) currentState() verbs.PortState {
	if len(m.changes) == 0 {
		return m.state
	}
	return m.changes[len(m.changes)-1].To
}

func (m *model) HandleOpened() {
	m.open, m.baselineDone, m.dissenting, m.pending = true, false, nil, nil
}

func (m *model) HandleRemoved(now int64) (Change, bool) {
	known := m.since != 0
	m.open, m.baselineDone = false, false
	if !known || m.currentState() == verbs.PortAbsent {
		return Change{}, false
	}
	return m.changeState(verbs.PortAbsent, verbs.WitnessEvent, now), true
}

func (m *model) changeState(to verbs.PortState, by verbs.Witness, at int64) Change {
	c := Change{From: m.currentState(), To: to, Witness: by, At: max(at, m.since)}
	if n := len(m.changes); n > 0 {
		c.At = max(at, m.changes[n-1].At)
		c.Lasted, c.HasLasted = c.At-m.changes[n-1].At, true
	}
	m.changes = append(m.changes, c)
	m.dissenting, m.pending = nil, nil
	return c
}

func (m *model) HandleEvents(r *verbs.Run) (Change, bool) {
	says := map[verbs.EventType]verbs.PortState{verbs.EventPortActive: verbs.PortActive, verbs.EventPortErr: verbs.PortDown}[r.Type]
	if !m.open || !m.baselineDone {
		m.early += r.Count
		return Change{}, false
	}
	m.read, m.dissenting = max(m.read, r.Last), nil
	m.phantoms += r.Count - 1 // only the first event of a run can change the state
	for len(m.pending) > 0 {
		owed := m.pending[0]
		m.pending = m.pending[1:]
		if owed.state == says && r.First <= owed.until {
			m.late++
			return Change{}, false
		}
	}
	if says == m.currentState() {
		m.phantoms++
		return Change{}, false
	}
	return m.changeState(says, verbs.WitnessEvent, r.First), true
}

func (m *model) HandleReading(mono int64, a *verbs.PortAttr) (Change, bool) {
	if !m.open || m.baselineDone && mono < m.read {
		return Change{}, false
	}
	if !m.baselineDone {
		return m.takeBaseline(mono, a.State)
	}
	if a.State == m.currentState() {
		m.dissenting = nil
		return Change{}, false
	}
	if n := len(m.dissenting); n > 0 && m.dissenting[n-1].state != a.State {
		m.dissenting = nil
	}
	m.dissenting = append(m.dissenting, observation{a.State, mono})
	first := m.dissenting[0]
	if len(m.dissenting) < 2 || mono-first.at < int64(50*time.Millisecond) {
		return Change{}, false
	}
	return m.changeByQuery(a.State, verbs.WitnessQuery, first.at, mono), true
}

func (m *model) takeBaseline(mono int64, s verbs.PortState) (Change, bool) {
	m.baselineDone = true
	switch {
	case m.since == 0:
		m.state, m.since = s, mono
		return Change{}, false
	case s == m.currentState():
		return Change{}, false
	}
	return m.changeByQuery(s, verbs.WitnessReopen, mono, mono), true
}

// changeByQuery adds a change that a query has found and whose event may still follow.
func (m *model) changeByQuery(to verbs.PortState, by verbs.Witness, at, mono int64) Change {
	owed := m.pending
	c := m.changeState(to, by, at)
	until := mono + int64(time.Second)
	if to == verbs.PortActive {
		owed = append(owed, expectedEvent{verbs.PortActive, until})
	} else if c.From == verbs.PortActive {
		owed = append(owed, expectedEvent{verbs.PortDown, until})
	}
	m.pending = owed
	return c
}

func (m *model) makeView(now int64) View {
	v := View{
		Known: m.since != 0, State: m.currentState(), Since: m.since, Transitions: uint64(len(m.changes)),
		Flaps: m.countFlaps(), Phantoms: m.phantoms, Late: m.late, Early: m.early,
	}
	if n := len(m.changes); n > 0 {
		v.Since, v.HasSince = m.changes[n-1].At, true
	}
	m.reportedDown = max(m.reportedDown, m.downTime(now))
	v.Down = m.reportedDown
	return v
}

// countFlaps counts how often the port left active and came back to it without becoming absent.
func (m *model) countFlaps() uint64 {
	var n uint64
	left := false
	for _, c := range m.changes {
		if left && c.To == verbs.PortActive {
			n++
		}
		left = c.To != verbs.PortAbsent && c.To != verbs.PortActive && (left || c.From == verbs.PortActive)
	}
	return n
}

// downTime adds up all periods that were neither active nor absent. The present period ends
// at the first reading that contradicts it.
func (m *model) downTime(now int64) int64 {
	var sum int64
	counts := func(s verbs.PortState) bool { return s != verbs.PortActive && s != verbs.PortAbsent }
	from := m.since
	for _, c := range m.changes {
		if counts(c.From) {
			sum += c.At - from
		}
		from = c.At
	}
	if m.since == 0 || !counts(m.currentState()) {
		return sum
	}
	if len(m.dissenting) > 0 && !counts(m.dissenting[0].state) {
		now = min(now, m.dissenting[0].at)
	}
	return sum + max(0, now-from)
}

func FuzzTheMachineDoesWhatItsModelDoes(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 3, 10, 2, 10, 3, 20, 1, 0, 1, 5})
	f.Add([]byte{0, 0, 1, 4, 1, 1, 1, 61, 3, 30, 2, 3, 1, 4, 1, 64})
	f.Add([]byte{0, 0, 1, 4, 1, 1, 1, 61, 3, 255, 3, 255, 3, 255, 3, 255, 3, 255})
	f.Add([]byte{0, 0, 1, 4, 4, 9, 0, 0, 1, 1, 2, 5, 18, 7, 19, 8, 1, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		var machine Machine
		var m model
		now := int64(time.Second)
		for ; len(in) >= 2; in = in[2:] {
			op, arg := in[0]%100, int64(in[1]) // from 100 on a reading has link_downed
			now += arg * ms
			var none int64
			want, wanted := feedInput(&m, op, arg, now, &none)
			got, changed := feedInput(&machine, op, arg, now, &none)
			require.Equal(t, wanted, changed, "op %d, arg %d", op%5, arg)
			require.Equal(t, want, got, "op %d, arg %d", op%5, arg)
			require.Equal(t, m.makeView(now), machine.View(now), "op %d, arg %d", op%5, arg)
		}
	})
}
