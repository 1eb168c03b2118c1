package portstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

const ms = int64(time.Millisecond)

// step is one input of a Machine at a time in ms, and the expected change.
type step struct {
	at   int64
	do   func(m *Machine, at int64) (Change, bool)
	want string // "from>to witness", or "" for no change
}

func portErr() func(*Machine, int64) (Change, bool)    { return portErrs(1) }
func portActive() func(*Machine, int64) (Change, bool) { return events(verbs.EventPortActive, 1) }
func portErrs(n uint64) func(*Machine, int64) (Change, bool) {
	return events(verbs.EventPortErr, n)
}

func events(t verbs.EventType, n uint64) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.HandleEvents(&verbs.Run{Type: t, Port: 1, Count: n, First: at, Last: at + int64(n) - 1})
	}
}

func reads(s verbs.PortState) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.HandleReading(at, &verbs.PortAttr{State: s})
	}
}

func counts(s verbs.PortState, downed uint64) func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) {
		return m.HandleReading(at, &verbs.PortAttr{State: s, LinkDowned: downed, HasLinkDowned: true})
	}
}

func open() func(*Machine, int64) (Change, bool) {
	return func(m *Machine, _ int64) (Change, bool) { m.HandleOpened(); return Change{}, false }
}

func removed() func(*Machine, int64) (Change, bool) {
	return func(m *Machine, at int64) (Change, bool) { return m.HandleRemoved(at) }
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
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {11, reads(down), ""},
			{50, portActive(), "down>active event"}, {51, reads(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"events before the baseline", []step{
			{0, open(), ""}, {1, portErr(), ""}, {2, portActive(), ""}, {3, reads(up), ""},
		}, View{Early: 2}},
		{"a run of port_err", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErrs(3), "active>down event"}, {50, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 2, Down: 40 * ms}},
		{"port_active unasked", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portActive(), ""}, {20, portActive(), ""},
		}, View{Phantoms: 2}},
		{"other port events", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, events(verbs.EventLIDChange, 1), ""}, {11, events(verbs.EventGIDChange, 4), ""},
		}, View{}},
		{"a query behind its event", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {50, portActive(), "down>active event"},
			{51, reads(down), ""}, {151, reads(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a query behind its event, twice in quick succession", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {50, portActive(), "down>active event"},
			{51, reads(down), ""}, {55, reads(down), ""}, {151, reads(up), ""},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a query ahead of a queued event", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {12, reads(up), ""},
			{14, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 4 * ms}},
		{"a stale query", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {9, reads(up), ""}, {200, reads(down), ""},
		}, View{Transitions: 1, Down: (100_000 - 10) * ms}},
		{"a stale query does not begin a doubt", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {9, reads(up), ""}, {59, reads(up), ""},
			{60, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 50 * ms}},
		{"an event between two queries, though a phantom", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, reads(down), ""}, {20, portActive(), ""}, {70, reads(down), ""},
			{120, reads(down), "active>down query"}, {170, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 1, Down: 100 * ms}},
		{"a drop whose events never come", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{3000, reads(up), ""}, {3100, reads(up), "down>active query"},
		}, View{Transitions: 2, Flaps: 1, Down: 2000 * ms}},
		{"a drop whose event comes after two queries", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{1150, portErr(), ""}, {1200, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Late: 1, Down: 200 * ms}},
		{"a drop whose events come after queries have found both transitions", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{1200, reads(up), ""}, {1300, reads(up), "down>active query"}, {1350, portErr(), ""}, {1351, portActive(), ""},
			{1400, reads(up), ""}, {1500, portErr(), "active>down event"}, {1540, portActive(), "down>active event"},
		}, View{Transitions: 4, Flaps: 2, Late: 2, Down: 240 * ms}},
		{"a drop that queries have found, and of whose events the first never comes", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{1200, reads(up), ""}, {1300, reads(up), "down>active query"}, {1351, portActive(), ""},
			{1500, portErr(), "active>down event"}, {1540, portActive(), "down>active event"},
		}, View{Transitions: 4, Flaps: 2, Late: 1, Down: 240 * ms}},
		{"three events queued behind two queries", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{1150, portErr(), ""}, {1151, portActive(), "down>active event"}, {1152, portErr(), "active>down event"},
			{1200, reads(down), ""}, {1500, portActive(), "down>active event"},
		}, View{Transitions: 4, Flaps: 2, Late: 1, Down: (151 + 348) * ms}},
		{"an event long after the query's transition", []step{
			{0, open(), ""}, {1, reads(up), ""}, {1000, reads(down), ""}, {1100, reads(down), "active>down query"},
			{2101, portErr(), ""}, {3000, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Phantoms: 1, Down: 2000 * ms}},
		{"a port that trains again", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {11, reads(ini), ""},
			{111, reads(ini), "down>init query"}, {500, portActive(), "init>active event"},
		}, View{Transitions: 3, Flaps: 1, Down: 490 * ms}},
		{"init found before its port_err", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, reads(ini), ""}, {110, reads(ini), "active>init query"},
			{111, portErr(), ""}, {500, portActive(), "init>active event"},
		}, View{Transitions: 2, Flaps: 1, Late: 1, Down: 490 * ms}},
		{"down and init found before the port_err", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, reads(down), ""}, {110, reads(down), "active>down query"},
			{120, reads(ini), ""}, {220, reads(ini), "down>init query"}, {230, portErr(), ""}, {500, portActive(), "init>active event"},
		}, View{Transitions: 3, Flaps: 1, Late: 1, Down: 490 * ms}},
		{"a worker replaced while nothing changed", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {20, open(), ""}, {30, reads(down), ""},
			{50, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
		{"a worker replaced across a drop", []step{
			{0, open(), ""}, {1, reads(up), ""}, {20, open(), ""}, {25, portErr(), ""}, {30, reads(down), "active>down reopen"},
			{50, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Early: 1, Down: 20 * ms}},
		{"a device removed and returned", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, removed(), "active>absent event"}, {11, reads(up), ""}, {12, portErr(), ""},
			{100, open(), ""}, {110, reads(up), "absent>active reopen"},
		}, View{Transitions: 2, Early: 1}},
		{"a device removed while down", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, portErr(), "active>down event"}, {30, removed(), "down>absent event"},
			{100, open(), ""}, {110, reads(down), "absent>down reopen"}, {120, portActive(), "down>active event"},
		}, View{Transitions: 4, Down: 30 * ms}},
		{"a device removed twice", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, removed(), "active>absent event"}, {20, removed(), ""},
		}, View{Transitions: 1}},
		{"a device removed before its baseline", []step{
			{0, open(), ""}, {10, removed(), ""}, {20, open(), ""}, {30, reads(up), ""},
		}, View{}},
		{"a doubt that another state replaces", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, reads(down), ""}, {100, reads(ini), ""}, {200, reads(down), ""},
			{300, reads(down), "active>down query"}, {1000, reads(up), ""}, {1200, reads(up), "down>active query"},
		}, View{Transitions: 2, Flaps: 1, Down: 800 * ms}},
		{"an event read before the query that preceded it in the stream", []step{
			{0, open(), ""}, {1, reads(up), ""}, {10, reads(down), ""}, {9, portErr(), "active>down event"}, {49, portActive(), "down>active event"},
		}, View{Transitions: 2, Flaps: 1, Down: 40 * ms}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := runSteps(t, row.steps)
			got := m.View(100_000 * ms)
			got.Known, got.State, got.Since, got.HasSince = false, 0, 0, false
			require.Equal(t, row.want, got)
		})
	}
}

func runSteps(t *testing.T, steps []step) *Machine {
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
	m.HandleOpened()
	reads(up)(&m, 1*ms)
	c, _ := portErr()(&m, 10*ms)
	require.Equal(t, Change{From: up, To: down, Witness: verbs.WitnessEvent, At: 10 * ms}, c)
	reads(up)(&m, 50*ms)
	c, _ = reads(up)(&m, 150*ms)
	require.Equal(t, Change{From: down, To: up, Witness: verbs.WitnessQuery, At: 50 * ms, Lasted: 40 * ms, HasLasted: true}, c)
	portActive()(&m, 160*ms)
	c, _ = portErr()(&m, 250*ms)
	require.Equal(t, 200*ms, c.Lasted)
}

func TestAnEventOlderThanTheStateItEndsLeavesItNoTime(t *testing.T) {
	var m Machine
	m.HandleOpened()
	reads(up)(&m, 1*ms)
	m.HandleOpened()
	reads(down)(&m, 30*ms)
	c, _ := portActive()(&m, 25*ms)
	require.Equal(t, Change{From: down, To: up, Witness: verbs.WitnessEvent, At: 30 * ms, HasLasted: true}, c)
	require.Zero(t, m.View(40*ms).Down)
}

func TestTheAgeOfAStateAppearsWithTheFirstChange(t *testing.T) {
	var m Machine
	require.Equal(t, View{}, m.View(ms))
	m.HandleOpened()
	reads(down)(&m, 1*ms)
	require.False(t, m.View(2*ms).HasSince)
	require.Equal(t, 1*ms, m.View(2*ms).Down)
	portActive()(&m, 5*ms)
	v := m.View(9 * ms)
	require.True(t, v.HasSince)
	require.Equal(t, 5*ms, v.Since)
	require.Equal(t, up, v.State)
}

func TestDownNeverFallsWhenAnEventIsOlderThanTheLastLook(t *testing.T) {
	var m Machine
	m.HandleOpened()
	reads(down)(&m, 0)
	require.Equal(t, 20*ms, m.View(20*ms).Down)
	portActive()(&m, 15*ms)
	require.Equal(t, 20*ms, m.View(30*ms).Down)
	portErr()(&m, 40*ms)
	require.Equal(t, 25*ms, m.View(50*ms).Down)
}

func TestTimeInDoubtIsCountedOnceTheDoubtIsGone(t *testing.T) {
	var m Machine
	m.HandleOpened()
	reads(down)(&m, 0)
	reads(up)(&m, 10*ms)
	require.Equal(t, 10*ms, m.View(40*ms).Down)
	reads(down)(&m, 50*ms)
	require.Equal(t, 60*ms, m.View(60*ms).Down)
}

func TestMissedTransitionsAreHowFarLinkDownedRanAhead(t *testing.T) {
	for _, row := range []struct {
		name  string
		steps []step
		want  uint64
	}{
		{"a start value", []step{{0, open(), ""}, {1, counts(up, 7), ""}, {5000, counts(up, 7), ""}, {9000, counts(up, 7), ""}}, 0},
		{"no counter", []step{{0, open(), ""}, {1, reads(up), ""}, {5000, reads(up), ""}}, 0},
		{"a drop too short to be seen", []step{
			{0, open(), ""}, {1, counts(up, 7), ""}, {5000, counts(up, 8), ""}, {10000, counts(up, 8), ""}, {15000, counts(up, 8), ""},
		}, 1},
		{"a drop seen by events", []step{
			{0, open(), ""}, {1, counts(up, 7), ""}, {100, portErr(), "active>down event"}, {101, counts(down, 8), ""},
			{200, portActive(), "down>active event"}, {5000, counts(up, 8), ""}, {10000, counts(up, 8), ""},
		}, 0},
		{"a drop found by queries", []step{
			{0, open(), ""}, {1, counts(up, 7), ""}, {5000, counts(down, 8), ""}, {10000, counts(down, 8), "active>down query"},
			{15000, counts(down, 8), ""}, {20000, counts(down, 8), ""},
		}, 0},
		{"a counter ahead of queued events", []step{
			{0, open(), ""}, {1, counts(up, 0), ""}, {100, counts(up, 1), ""}, {200, counts(up, 1), ""},
			{300, portErr(), "active>down event"}, {301, portActive(), "down>active event"}, {5000, counts(up, 1), ""}, {9000, counts(up, 1), ""},
		}, 0},
		{"a counter always one ahead in a storm", []step{
			{0, open(), ""}, {1, counts(up, 0), ""},
			{500, counts(up, 1), ""}, {501, portErr(), "active>down event"}, {502, portActive(), "down>active event"},
			{1000, counts(up, 2), ""}, {1001, portErr(), "active>down event"}, {1002, portActive(), "down>active event"},
			{1500, counts(up, 3), ""}, {1501, portErr(), "active>down event"}, {1502, portActive(), "down>active event"},
			{2000, counts(up, 4), ""}, {2001, portErr(), "active>down event"}, {2002, portActive(), "down>active event"},
			{9000, counts(up, 4), ""},
		}, 0},
		{"a counter updated late", []step{
			{0, open(), ""}, {1, counts(up, 0), ""}, {100, portErr(), "active>down event"}, {101, counts(down, 0), ""},
			{102, portActive(), "down>active event"}, {5000, counts(up, 1), ""}, {10000, counts(up, 1), ""}, {15000, counts(up, 1), ""},
		}, 0},
		{"a counter reset", []step{
			{0, open(), ""}, {1, counts(up, 7), ""}, {5000, counts(up, 9), ""}, {10000, counts(up, 9), ""},
			{15000, counts(up, 0), ""}, {20000, counts(up, 1), ""}, {25000, counts(up, 1), ""},
		}, 3},
		{"drops while the worker was replaced", []step{
			{0, open(), ""}, {1, counts(up, 7), ""}, {2, open(), ""}, {1000, counts(up, 10), ""}, {6000, counts(up, 10), ""},
		}, 3},
		{"a device that came back", []step{
			{0, open(), ""}, {1, counts(up, 0), ""}, {2, removed(), "active>absent event"}, {3, open(), ""},
			{4, counts(up, 50), "absent>active reopen"}, {6000, counts(up, 50), ""}, {9000, counts(up, 50), ""},
		}, 0},
		{"missed, then more", []step{
			{0, open(), ""}, {1, counts(up, 0), ""}, {5000, counts(up, 2), ""}, {10000, counts(up, 5), ""},
			{15000, counts(up, 5), ""}, {20000, counts(up, 5), ""},
		}, 5},
		{"drops that only the driver sees, after downs that it does not count", []step{
			{0, open(), ""}, {1, counts(up, 0), ""},
			{10000, portErr(), "active>down event"}, {10001, counts(down, 0), ""}, {15000, counts(down, 0), ""},
			{16000, portActive(), "down>active event"}, {20000, counts(up, 0), ""},
			{30000, portErr(), "active>down event"}, {35000, counts(down, 0), ""},
			{36000, portActive(), "down>active event"}, {40000, counts(up, 0), ""},
			{45000, counts(up, 2), ""}, {50000, counts(up, 2), ""}, {55000, counts(up, 2), ""},
		}, 2},
		{"a counter always one behind in a storm", []step{
			{0, open(), ""}, {1, counts(up, 0), ""},
			{500, portErr(), "active>down event"}, {501, counts(down, 0), ""}, {502, portActive(), "down>active event"},
			{1000, portErr(), "active>down event"}, {1001, counts(down, 1), ""}, {1002, portActive(), "down>active event"},
			{1500, portErr(), "active>down event"}, {1501, counts(down, 2), ""}, {1502, portActive(), "down>active event"},
			{2000, portErr(), "active>down event"}, {2001, counts(down, 3), ""}, {2002, portActive(), "down>active event"},
			{5000, counts(up, 4), ""}, {9000, counts(up, 4), ""}, {14000, counts(up, 4), ""},
		}, 0},
		{"a link that falls while it trains", []step{
			{0, open(), ""}, {1, counts(ini, 0), ""}, {100, portErr(), "init>down event"}, {101, counts(down, 1), ""}, {5000, counts(down, 1), ""},
		}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, runSteps(t, row.steps).View(100_000*ms).Missed)
		})
	}
}
