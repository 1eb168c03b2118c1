package verbstest

import (
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

const ampleRuns = 64 // more than a case needs

func eventCases() []testCase {
	injects, links := []Capability{Injection}, []Capability{Link}
	return []testCase{
		{"events arrive in the order they happened", links, arriveInOrder},
		{"a burst of equal events is complete and comes as runs that add up", injects, burstIsComplete},
		{"events beyond runs come with the next call", injects, theRestComesNext},
		{"types without a name keep their number", injects, unknownKeepTheirNumber},
		{"events of the device have no port", injects, deviceEventsHaveNoPort},
		{"a new address is a gid_change", []Capability{Addresses}, newAddressIsGIDChange},
		{"ReadEvents without wait returns at once when nothing is there", nil, noWaitReturnsAtOnce},
		{"ReadEvents returns nothing when its wait is over", nil, waitEnds},
		{"ReadEvents without room returns at once", nil, emptyRunsReturnAtOnce},
		{"a second handle gets its own copy", []Capability{SecondOpen, Injection}, secondHandleGetsACopy},
		{"events before the opening are not delivered", injects, notBeforeOpening},
	}
}

func arriveInOrder(s *session) {
	types := []verbs.EventType{verbs.EventPortErr, verbs.EventPortActive}
	var got []verbs.Run
	for range 2 {
		s.linkDown()
		got = append(got, s.untilType(verbs.EventPortErr, types)...)
		s.linkUp()
		got = append(got, s.untilType(verbs.EventPortActive, types)...)
	}
	require.Equal(s.t, []verbs.EventType{
		verbs.EventPortErr, verbs.EventPortActive, verbs.EventPortErr, verbs.EventPortActive,
	}, typeChanges(got))
	for i := 1; i < len(got); i++ {
		require.LessOrEqual(s.t, got[i-1].Last, got[i].First)
	}
}

// untilType reads until the last event is of type typ.
func (s *session) untilType(typ verbs.EventType, types []verbs.EventType) []verbs.Run {
	s.t.Helper()
	return s.readUntil(typ.String(), ampleRuns, types, func(runs []verbs.Run) bool {
		return len(runs) > 0 && runs[len(runs)-1].Type == typ
	})
}

// typeChanges returns the types of the runs without repetitions, and without port_active events of a port that is already active.
func typeChanges(runs []verbs.Run) []verbs.EventType {
	types, last := []verbs.EventType{}, verbs.EventPortActive
	for _, r := range runs {
		if r.Type != last {
			types = append(types, r.Type)
			last = r.Type
		}
	}
	return types
}

func burstIsComplete(s *session) {
	const burst = 1000
	s.f.Inject(s.t, verbs.EventPKeyChange, s.f.Port, burst)
	s.awaitEvents(verbs.EventPKeyChange, burst)
	require.EqualValues(s.t, burst, s.counted(verbs.EventPKeyChange, s.f.Port))
}

func theRestComesNext(s *session) {
	types := []verbs.EventType{verbs.EventSMChange, verbs.EventLIDChange, verbs.EventClientReregister}
	for _, typ := range types {
		s.f.Inject(s.t, typ, s.f.Port, 2)
	}
	got := s.readUntil("six events", 1, types, func(runs []verbs.Run) bool { return totalCount(runs) >= 6 })
	require.EqualValues(s.t, 6, totalCount(got))
	for _, typ := range types {
		require.EqualValues(s.t, 2, s.counted(typ, s.f.Port), "events of type %v", typ)
	}
}

func unknownKeepTheirNumber(s *session) {
	const typ verbs.EventType = 4711
	s.f.Inject(s.t, typ, 0, 3)
	got := s.awaitEvents(typ, 3)
	require.Equal(s.t, "unknown_4711", got[0].Type.String())
	require.EqualValues(s.t, 3, s.counted(typ, 0))
}

func deviceEventsHaveNoPort(s *session) {
	s.f.Inject(s.t, verbs.EventDeviceSpeedChange, 0, 1)
	s.awaitEvents(verbs.EventDeviceSpeedChange, 1)
	require.EqualValues(s.t, 1, s.counted(verbs.EventDeviceSpeedChange, 0))
}

func newAddressIsGIDChange(s *session) {
	s.f.AddAddress(s.t)
	s.untilType(verbs.EventGIDChange, []verbs.EventType{verbs.EventGIDChange})
	require.NotZero(s.t, s.counted(verbs.EventGIDChange, s.f.Port))
}

// settle reads the events that a device raises by itself after it was opened.
func (s *session) settle() {
	s.t.Helper()
	for len(s.readEvents(ampleRuns, 2*quiet)) > 0 {
	}
}

func noWaitReturnsAtOnce(s *session) {
	s.settle()
	start := time.Now()
	require.Empty(s.t, s.readEvents(ampleRuns, 0))
	require.Less(s.t, time.Since(start), time.Second)
}

func waitEnds(s *session) {
	s.settle()
	start := time.Now()
	require.Empty(s.t, s.readEvents(ampleRuns, quiet))
	require.GreaterOrEqual(s.t, time.Since(start), quiet)
}

func emptyRunsReturnAtOnce(s *session) {
	require.Empty(s.t, s.readEvents(0, -1))
}

func secondHandleGetsACopy(s *session) {
	other := openSession(s.t, s.f)
	s.f.Inject(s.t, verbs.EventSMChange, s.f.Port, 5)
	s.awaitEvents(verbs.EventSMChange, 5)
	other.awaitEvents(verbs.EventSMChange, 5)
	require.NoError(s.t, other.close())
	s.f.Inject(s.t, verbs.EventLIDChange, s.f.Port, 1)
	s.awaitEvents(verbs.EventLIDChange, 1)
	require.Zero(s.t, other.counted(verbs.EventLIDChange, s.f.Port))
}

func notBeforeOpening(s *session) {
	s.f.Inject(s.t, verbs.EventSMChange, s.f.Port, 1)
	s.awaitEvents(verbs.EventSMChange, 1)
	require.NoError(s.t, s.close())
	again := openSession(s.t, s.f)
	again.f.Inject(again.t, verbs.EventSMChange, s.f.Port, 1)
	again.awaitEvents(verbs.EventSMChange, 1)
}
