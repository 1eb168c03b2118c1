package portstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

const ms = int64(time.Millisecond)

// step is one input of a Machine at a time in ms, and the change wanted.
type step struct {
	at   int64
	do   func(m *Machine, at int64) (Change, bool)
	want string // "from>to witness", or "" for no change
}

func err() func(*Machine, int64) (Change, bool)    { return errs(1) }
func active() func(*Machine, int64) (Change, bool) { return run(verbs.EventPortActive, 1) }
func errs(n uint64) func(*Machine, int64) (Change, bool) {
	return run(verbs.EventPortErr, n)
}

func run(t verbs.EventType, n uint64) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.Event(&verbs.Run{Type: t, Port: 1, Count: n, First: at, Last: at + int64(n) - 1})
	}
}

func says(s verbs.PortState) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.Reading(at, &verbs.PortAttr{State: s})
	}
}

func counting(s verbs.PortState, downed uint64) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.Reading(at, &verbs.PortAttr{State: s, LinkDowned: downed, HasLinkDowned: true})
	}
}

func open() func(*Machine, int64) (Change, bool) {
	return func(m *Machine, _ int64) (Change, bool) { m.Opened(); return Change{}, false }
}

func removed() func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) { return m.Removed(at) }
}

const (
	up   = verbs.PortActive
	down = verbs.PortDown
	ini  = verbs.PortInit
)

func TestEventsAndReadingsBecomeTransitions(t *testing.T) {
	for _, row := range []struct {
		name  string
		steps []step
		want  View // at 100 s; State, Since and Known are not compared
	}{
		{"one drop", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {11, says(down), ""},
			{50, active(), "down>active event"}, {51, says(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"events before the baseline", []step{
			{0, open(), ""}, {1, err(), ""}, {2, active(), ""}, {3, says(up), ""},
		}, View{Early: 2}},
		{"a run of port_err", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, errs(3), "active>down event"}, {50, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 2, Down: 40 * ms}},
		{"port_active unasked", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, active(), ""}, {20, active(), ""},
		}, View{Phantoms: 2}},
		{"other port events", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, run(verbs.EventLIDChange, 1), ""}, {11, run(verbs.EventGIDChange, 4), ""},
		}, View{}},
		{"a query behind its event", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {50, active(), "down>active event"},
			{51, says(down), ""}, {151, says(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a query behind its event, twice in quick succession", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {50, active(), "down>active event"},
			{51, says(down), ""}, {55, says(down), ""}, {151, says(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a query ahead of a queued event", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {12, says(up), ""},
			{14, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 4 * ms}},
		{"a stale query", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {9, says(up), ""}, {200, says(down), ""},
		}, View{Transitions: 1, Down: (100_000 - 10) * ms}},
		{"a stale query does not begin a doubt", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {9, says(up), ""}, {59, says(up), ""},
			{60, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 50 * ms}},
		{"an event between two queries, though a phantom", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, says(down), ""}, {20, active(), ""}, {70, says(down), ""},
			{120, says(down), "active>down query"}, {170, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 1, Down: 100 * ms}},
		{"a drop whose events never come", []step{
			{0, open(), ""}, {1, says(up), ""}, {1000, says(down), ""}, {1100, says(down), "active>down query"},
			{3000, says(up), ""}, {3100, says(up), "down>active query"},
		}, View{Transitions: 2, Flaps: 1, Down: 2000 * ms}},
		{"a drop whose event comes after two queries", []step{
			{0, open(), ""}, {1, says(up), ""}, {1000, says(down), ""}, {1100, says(down), "active>down query"},
			{1150, err(), ""}, {1200, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Late: 1, Down: 200 * ms}},
		{"three events queued behind two queries", []step{
			{0, open(), ""}, {1, says(up), ""}, {1000, says(down), ""}, {1100, says(down), "active>down query"},
			{1150, err(), ""}, {1151, active(), "down>active event"}, {1152, err(), "active>down event"},
			{1200, says(down), ""}, {1500, active(), "down>active event"},
		}, View{Transitions: 4, Flaps: 2, Late: 1, Down: (151 + 348) * ms}},
		{"an event long after the query's transition", []step{
			{0, open(), ""}, {1, says(up), ""}, {1000, says(down), ""}, {1100, says(down), "active>down query"},
			{2101, err(), ""}, {3000, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 1, Down: 2000 * ms}},
		{"a port that trains again", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {11, says(ini), ""},
			{111, says(ini), "down>init query"}, {500, active(), "init>active event"},
		}, View{Transitions: 3, Flaps: 1, Down: 490 * ms}},
		{"init found before its port_err", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, says(ini), ""}, {110, says(ini), "active>init query"},
			{111, err(), ""}, {500, active(), "init>active event"},
		}, View{Transitions: 2, Flaps: 1, Late: 1, Down: 490 * ms}},
		{"a worker replaced while nothing changed", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {20, open(), ""}, {30, says(down), ""},
			{50, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a worker replaced across a drop", []step{
			{0, open(), ""}, {1, says(up), ""}, {20, open(), ""}, {25, err(), ""}, {30, says(down), "active>down reopen"},
			{50, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Early: 1, Down: 20 * ms}},
		{"a device removed and returned", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, removed(), "active>absent event"}, {11, says(up), ""}, {12, err(), ""},
			{100, open(), ""}, {110, says(up), "absent>active reopen"},
		}, View{Transitions: 2, Early: 1}},
		{"a device removed while down", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, err(), "active>down event"}, {30, removed(), "down>absent event"},
			{100, open(), ""}, {110, says(down), "absent>down reopen"}, {120, active(), "down>active event"},
		}, View{Transitions: 4, Down: 30 * ms}},
		{"a device removed twice", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, removed(), "active>absent event"}, {20, removed(), ""},
		}, View{Transitions: 1}},
		{"a device removed before its baseline", []step{
			{0, open(), ""}, {10, removed(), ""}, {20, open(), ""}, {30, says(up), ""},
		}, View{}},
		{"a doubt that another state replaces", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, says(down), ""}, {100, says(ini), ""}, {200, says(down), ""},
			{300, says(down), "active>down query"}, {1000, says(up), ""}, {1200, says(up), "down>active query"},
		}, View{Transitions: 2, Flaps: 1, Down: 800 * ms}},
		{"an event read before the query that preceded it in the stream", []step{
			{0, open(), ""}, {1, says(up), ""}, {10, says(down), ""}, {9, err(), "active>down event"}, {49, active(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := follow(t, row.steps)
			got := m.View(100_000 * ms)
			got.Known, got.State, got.Since, got.HasSince = false, 0, 0, false
			require.Equal(t, row.want, got)
		})
	}
}

func follow(t *testing.T, steps []step) *Machine {
	t.Helper()
	var m Machine
	for _, s := range steps {
		c, changed := s.do(&m, s.at*ms)
		got := ""
		if changed {
			got = c.From.String() + ">" + c.To.String() + " " + string(c.Witness)
		}
		require.Equal(t, s.want, got, "at %d ms", s.at)
	}
	return &m
}

func TestChangeHasTheDurationOfTheStateBefore(t *testing.T) {
	var m Machine
	m.Opened()
	says(up)(&m, 1*ms)
	c, _ := err()(&m, 10*ms)
	require.Equal(t, Change{From: up, To: down, Witness: verbs.WitnessEvent, At: 10 * ms}, c)
	says(up)(&m, 50*ms)
	c, _ = says(up)(&m, 150*ms)
	require.Equal(t, Change{From: down, To: up, Witness: verbs.WitnessQuery, At: 50 * ms, Lasted: 40 * ms, HasLasted: true}, c)
	active()(&m, 160*ms)
	c, _ = err()(&m, 250*ms)
	require.Equal(t, 200*ms, c.Lasted)
}

func TestAnEventOlderThanTheStateItEndsLeavesItNoTime(t *testing.T) {
	var m Machine
	m.Opened()
	says(up)(&m, 1*ms)
	m.Opened()
	says(down)(&m, 30*ms)
	c, _ := active()(&m, 25*ms)
	require.Equal(t, Change{From: down, To: up, Witness: verbs.WitnessEvent, At: 30 * ms, HasLasted: true}, c)
	require.Zero(t, m.View(40*ms).Down)
}

func TestTheAgeOfAStateAppearsWithTheFirstChange(t *testing.T) {
	var m Machine
	require.Equal(t, View{}, m.View(ms))
	m.Opened()
	says(down)(&m, 1*ms)
	require.False(t, m.View(2*ms).HasSince)
	require.Equal(t, 1*ms, m.View(2*ms).Down)
	active()(&m, 5*ms)
	v := m.View(9 * ms)
	require.True(t, v.HasSince)
	require.Equal(t, 5*ms, v.Since)
	require.Equal(t, up, v.State)
}

func TestDownNeverFallsWhenAnEventIsOlderThanTheLastLook(t *testing.T) {
	var m Machine
	m.Opened()
	says(down)(&m, 0)
	require.Equal(t, 20*ms, m.View(20*ms).Down)
	active()(&m, 15*ms)
	require.Equal(t, 20*ms, m.View(30*ms).Down)
	err()(&m, 40*ms)
	require.Equal(t, 25*ms, m.View(50*ms).Down)
}

func TestTimeInDoubtIsCountedOnceTheDoubtIsGone(t *testing.T) {
	var m Machine
	m.Opened()
	says(down)(&m, 0)
	says(up)(&m, 10*ms)
	require.Equal(t, 10*ms, m.View(40*ms).Down)
	says(down)(&m, 50*ms)
	require.Equal(t, 60*ms, m.View(60*ms).Down)
}

func TestMissedTransitionsAreHowFarLinkDownedRanAhead(t *testing.T) {
	for _, row := range []struct {
		name  string
		steps []step
		want  uint64
	}{
		{"a start value", []step{{0, open(), ""}, {1, counting(up, 7), ""}, {5000, counting(up, 7), ""}, {9000, counting(up, 7), ""}}, 0},
		{"no counter", []step{{0, open(), ""}, {1, says(up), ""}, {5000, says(up), ""}}, 0},
		{"a drop too short to be seen", []step{
			{0, open(), ""}, {1, counting(up, 7), ""}, {5000, counting(up, 8), ""}, {10000, counting(up, 8), ""}, {15000, counting(up, 8), ""},
		}, 1},
		{"a drop seen by events", []step{
			{0, open(), ""}, {1, counting(up, 7), ""}, {100, err(), "active>down event"}, {101, counting(down, 8), ""},
			{200, active(), "down>active event"}, {5000, counting(up, 8), ""}, {10000, counting(up, 8), ""},
		}, 0},
		{"a drop found by queries", []step{
			{0, open(), ""}, {1, counting(up, 7), ""}, {5000, counting(down, 8), ""}, {10000, counting(down, 8), "active>down query"},
			{15000, counting(down, 8), ""}, {20000, counting(down, 8), ""},
		}, 0},
		{"a counter ahead of queued events", []step{
			{0, open(), ""}, {1, counting(up, 0), ""}, {100, counting(up, 1), ""}, {200, counting(up, 1), ""},
			{300, err(), "active>down event"}, {301, active(), "down>active event"}, {5000, counting(up, 1), ""}, {9000, counting(up, 1), ""},
		}, 0},
		{"a counter always one ahead in a storm", []step{
			{0, open(), ""}, {1, counting(up, 0), ""},
			{500, counting(up, 1), ""}, {501, err(), "active>down event"}, {502, active(), "down>active event"},
			{1000, counting(up, 2), ""}, {1001, err(), "active>down event"}, {1002, active(), "down>active event"},
			{1500, counting(up, 3), ""}, {1501, err(), "active>down event"}, {1502, active(), "down>active event"},
			{2000, counting(up, 4), ""}, {2001, err(), "active>down event"}, {2002, active(), "down>active event"},
			{9000, counting(up, 4), ""},
		}, 0},
		{"a counter updated late", []step{
			{0, open(), ""}, {1, counting(up, 0), ""}, {100, err(), "active>down event"}, {101, counting(down, 0), ""},
			{102, active(), "down>active event"}, {5000, counting(up, 1), ""}, {10000, counting(up, 1), ""}, {15000, counting(up, 1), ""},
		}, 0},
		{"a counter reset", []step{
			{0, open(), ""}, {1, counting(up, 7), ""}, {5000, counting(up, 9), ""}, {10000, counting(up, 9), ""},
			{15000, counting(up, 0), ""}, {20000, counting(up, 1), ""}, {25000, counting(up, 1), ""},
		}, 3},
		{"drops while the worker was replaced", []step{
			{0, open(), ""}, {1, counting(up, 7), ""}, {2, open(), ""}, {1000, counting(up, 10), ""}, {6000, counting(up, 10), ""},
		}, 3},
		{"a device that came back", []step{
			{0, open(), ""}, {1, counting(up, 0), ""}, {2, removed(), "active>absent event"}, {3, open(), ""},
			{4, counting(up, 50), "absent>active reopen"}, {6000, counting(up, 50), ""}, {9000, counting(up, 50), ""},
		}, 0},
		{"missed, then more", []step{
			{0, open(), ""}, {1, counting(up, 0), ""}, {5000, counting(up, 2), ""}, {10000, counting(up, 5), ""},
			{15000, counting(up, 5), ""}, {20000, counting(up, 5), ""},
		}, 5},
		{"drops that only the driver sees, after downs that it does not count", []step{
			{0, open(), ""}, {1, counting(up, 0), ""},
			{10000, err(), "active>down event"}, {10001, counting(down, 0), ""}, {15000, counting(down, 0), ""},
			{16000, active(), "down>active event"}, {20000, counting(up, 0), ""},
			{30000, err(), "active>down event"}, {35000, counting(down, 0), ""},
			{36000, active(), "down>active event"}, {40000, counting(up, 0), ""},
			{45000, counting(up, 2), ""}, {50000, counting(up, 2), ""}, {55000, counting(up, 2), ""},
		}, 2},
		{"a counter always one behind in a storm", []step{
			{0, open(), ""}, {1, counting(up, 0), ""},
			{500, err(), "active>down event"}, {501, counting(down, 0), ""}, {502, active(), "down>active event"},
			{1000, err(), "active>down event"}, {1001, counting(down, 1), ""}, {1002, active(), "down>active event"},
			{1500, err(), "active>down event"}, {1501, counting(down, 2), ""}, {1502, active(), "down>active event"},
			{2000, err(), "active>down event"}, {2001, counting(down, 3), ""}, {2002, active(), "down>active event"},
			{5000, counting(up, 4), ""}, {9000, counting(up, 4), ""}, {14000, counting(up, 4), ""},
		}, 0},
		{"a link that falls while it trains", []step{
			{0, open(), ""}, {1, counting(ini, 0), ""}, {100, err(), "init>down event"}, {101, counting(down, 1), ""}, {5000, counting(down, 1), ""},
		}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, follow(t, row.steps).View(100_000*ms).Missed)
		})
	}
}
