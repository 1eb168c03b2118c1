package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

func TestObjectsAndEventsShareThePlaces(t *testing.T) {
	b := newBench(t, 1)
	b.AddListing(contextListing(start, "d", newProcess(1, "a")))
	b.second(updateOf(appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	got := b.async()
	require.Len(t, got, 2)
	require.Zero(t, got["d a "].Queued(), "its first event will be a growth")
	require.EqualValues(t, 1, got["d other "].Queued())
	require.EqualValues(t, 1, got["d other "].Processes)

	b = newBench(t, 1)
	b.second(updateOf(appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	b.AddListing(contextListing(start.Add(9*keepPlaceFor), "d", newProcess(1, "a")))
	require.Equal(t, map[string]int64{"d b ": 0, "d other ": 1}, contextCounts(b.Picture), "b is still there")
}

// The process has an event before its objects are listed for the first time.
func TestProgramWithAnEarlyEventHasNoObjectsUntilTheyAreListed(t *testing.T) {
	b := newBench(t, 9)
	early := newProcess(1, "a")
	old := newProcess(7, "old")
	b.AddListing(lookAt("d", b.now().Wall, dumps{verbs.ObjectContext: completeDump(object{Owner: old}),
		verbs.ObjectQP: completeDump(object{Owner: old, State: 3})}))
	b.second(updateOf(appCounts(early, verbs.EventQPFatal, 1, 0, 0)))
	require.Equal(t, map[string]int64{"d old ": 1}, contextCounts(b.Picture))
	require.EqualValues(t, 1, b.async()["d a "].Queued())

	b.second(trace.Update{})
	b.AddListing(contextListing(b.now().Wall, "d", old, early))
	require.Equal(t, map[string]int64{"d a ": 1, "d old ": 1}, contextCounts(b.Picture))
	a := b.Points(b.now().Wall)[0]
	require.Equal(t, "a", a.App)
	require.False(t, a.QPs.Known, "the list of queue pairs is older than the process")
}

func TestTracedProgramWithoutObjectsHasZerosOfANewerList(t *testing.T) {
	b := newBench(t, 9)
	b.second(updateOf(appCounts(newProcess(1, "a"), verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	b.AddListing(contextListing(b.now().Wall, "d"))
	require.Equal(t, map[string]int64{"d a ": 0}, contextCounts(b.Picture))
}

func TestSeriesWithoutAnEventEndsWithItsProcess(t *testing.T) {
	b := newBench(t, 9)
	b.AddListing(contextListing(start, "d", newProcess(1, "a"), newProcess(2, "b")))
	b.second(updateOf(appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	require.Len(t, b.async(), 2)
	last := appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0)
	last.Ended = true
	b.second(updateOf(last))
	b.second(trace.Update{})
	b.AddListing(contextListing(start, "d"))
	require.Zero(t, b.async()["d a "].Queued())
	got := b.async()
	require.Len(t, got, 1)
	require.EqualValues(t, 1, got["d b "].Queued(), "a counter goes on")
}

func TestASeriesKeepsItsCountersUntilItYields(t *testing.T) {
	b := newBench(t, 1)
	ended := appCounts(newProcess(1, "a"), verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(updateOf(ended))
	b.second(trace.Update{})
	b.mono += int64(keepPlaceFor) - 2*int64(time.Second)
	other := appCounts(newProcess(2, "b"), verbs.EventQPFatal, 1, 0, 0)
	other.Ended = true
	b.second(updateOf(other))
	require.EqualValues(t, 1, b.async()["d a "].Queued())
	require.EqualValues(t, 1, b.async()["d other "].Queued())
	b.second(trace.Update{})

	b.mono += int64(keepPlaceFor)
	b.second(updateOf(appCounts(newProcess(3, "c"), verbs.EventQPFatal, 1, 0, 0)))
	got := b.async()
	require.NotContains(t, got, "d a ")
	require.EqualValues(t, 1, got["d c "].Queued())
	require.EqualValues(t, 1, got["d other "].Queued())
	require.EqualValues(t, 3, b.Host().Errors, "the host's sum never falls")
}

func TestAProcessIsCountedWhereItsFirstEventWas(t *testing.T) {
	b := newBench(t, 1)
	a, x := newProcess(1, "a"), newProcess(2, "x")
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 1, 0, 0), appCounts(x, verbs.EventQPFatal, 0, 1, 0)))
	a.Process.Comm = "renamed"
	ended := appCounts(a, verbs.EventQPFatal, 2, 0, 0)
	ended.Ended = true
	b.second(updateOf(ended))
	b.second(trace.Update{})
	b.mono += 2 * int64(keepPlaceFor)
	b.second(updateOf(appCounts(x, verbs.EventQPFatal, 1, 0, 0))) // there is a free place now
	got := b.async()
	require.Len(t, got, 2)
	require.EqualValues(t, 2, got["d a "].Read)
	require.EqualValues(t, 1, got["d other "].Read)
	requireParity(t, got["d other "])
}

func TestADeviceThatComesBackGoesOnCounting(t *testing.T) {
	b := newBench(t, 9)
	b.AddListing(contextListing(start, "d", newProcess(1, "a"), newProcess(2, "b")))
	ended := appCounts(newProcess(1, "a"), verbs.EventDeviceFatal, 1, 0, 0)
	ended.Ended = true
	b.second(updateOf(ended))
	b.RemoveDevice("d")
	require.EqualValues(t, 1, b.async()["d a "].Queued())
	require.Len(t, b.async(), 1)
	require.Len(t, b.places.assigned, 1)
	b.second(updateOf(appCounts(newProcess(3, "a"), verbs.EventDeviceFatal, 1, 0, 0)))
	require.EqualValues(t, 2, b.async()["d a "].Queued())
}

func TestEventsOfAllUnitsHaveOneTotal(t *testing.T) {
	b := newBench(t, 9, "app", "unit")
	here, there := newProcess(1, "a"), newProcess(2, "a")
	there.Process.Unit = "job_7"
	s := updateOf(appCounts(here, verbs.EventQPFatal, 1, 0, 0), appCounts(there, verbs.EventQPFatal, 1, 0, 0))
	s.Events = []trace.Event{appEvent(here, verbs.EventQPFatal, 1, 1), appEvent(there, verbs.EventQPFatal, 2, 2)}
	b.second(s)
	shown := b.shown()
	require.Len(t, shown, 2)
	require.Equal(t, "job_7", shown[1].Unit)
	require.EqualValues(t, 2, shown[1].Total)
	got := b.async()
	require.EqualValues(t, 1, got["d a u.service"].Queued())
	require.EqualValues(t, 1, got["d a job_7"].Queued())
}

func TestATotalGoesOnWhileAUnitOfTheApplicationHasAPlace(t *testing.T) {
	b := newBench(t, 2, "app", "unit")
	here, there := newProcess(1, "a"), newProcess(2, "a")
	there.Process.Unit = "job_7"
	ended := appCounts(here, verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(updateOf(ended, appCounts(there, verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	b.mono += int64(keepPlaceFor)
	ended = appCounts(newProcess(3, "b"), verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(updateOf(ended, appCounts(there, verbs.EventQPFatal, 2, 0, 0)))
	b.second(trace.Update{})
	require.NotContains(t, b.async(), "d a u.service")
	total := func() uint64 {
		shown := b.shown()
		return shown[len(shown)-1].Total
	}
	b.second(updateOf(appCounts(there, verbs.EventQPFatal, 3, 0, 0)))
	b.second(trace.Update{})
	require.EqualValues(t, 4, total())

	b.mono += int64(keepPlaceFor)
	b.second(updateOf(appCounts(newProcess(4, "c"), verbs.EventQPFatal, 1, 0, 0)))
	b.mono += int64(keepPlaceFor)
	b.second(updateOf(appCounts(newProcess(5, "b"), verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	require.Contains(t, b.async(), "d other ", "c has the place of b, which has begun again there")
	require.NotContains(t, b.async(), "d b u.service")
	for k := range b.tracing.emittedTotals {
		require.NotEqual(t, "b", k.app)
	}
}
