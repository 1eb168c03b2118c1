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
	b.AddListing(contexts(start, "d", process(1, "a")))
	b.second(apps(app(process(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	got := b.async()
	require.Len(t, got, 2)
	require.Zero(t, got["d a "].Queued(), "its first event will be a growth")
	require.EqualValues(t, 1, got["d other "].Queued())
	require.EqualValues(t, 1, got["d other "].Processes)

	b = newBench(t, 1)
	b.second(apps(app(process(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	b.AddListing(contexts(start.Add(9*keepPlaceFor), "d", process(1, "a")))
	require.Equal(t, map[string]int64{"d b ": 0, "d other ": 1}, held(b.Picture), "b is still there")
}

// The process has an event before its objects are listed for the first time.
func TestProgramWithAnEarlyEventHasNoObjectsUntilTheyAreListed(t *testing.T) {
	b := newBench(t, 9)
	early := process(1, "a")
	old := process(7, "old")
	b.AddListing(lookAt("d", b.now().Wall, dumps{verbs.ObjectContext: listed(object{Owner: old}), verbs.ObjectQP: listed(object{Owner: old, State: 3})}))
	b.second(apps(app(early, verbs.EventQPFatal, 1, 0, 0)))
	require.Equal(t, map[string]int64{"d old ": 1}, held(b.Picture))
	require.EqualValues(t, 1, b.async()["d a "].Queued())

	b.second(trace.Update{})
	b.AddListing(contexts(b.now().Wall, "d", old, early))
	require.Equal(t, map[string]int64{"d a ": 1, "d old ": 1}, held(b.Picture))
	a := b.Points(b.now().Wall)[0]
	require.Equal(t, "a", a.App)
	require.False(t, a.QPs.Known, "the list of queue pairs is older than the process")
}

func TestTracedProgramWithoutObjectsHasZerosOfANewerList(t *testing.T) {
	b := newBench(t, 9)
	b.second(apps(app(process(1, "a"), verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	b.AddListing(contexts(b.now().Wall, "d"))
	require.Equal(t, map[string]int64{"d a ": 0}, held(b.Picture))
}

func TestSeriesWithoutAnEventEndsWithItsProcess(t *testing.T) {
	b := newBench(t, 9)
	b.AddListing(contexts(start, "d", process(1, "a"), process(2, "b")))
	b.second(apps(app(process(2, "b"), verbs.EventQPFatal, 1, 0, 0)))
	require.Len(t, b.async(), 2)
	last := app(process(2, "b"), verbs.EventQPFatal, 1, 0, 0)
	last.Ended = true
	b.second(apps(last))
	b.second(trace.Update{})
	b.AddListing(contexts(start, "d"))
	require.Zero(t, b.async()["d a "].Queued())
	got := b.async()
	require.Len(t, got, 1)
	require.EqualValues(t, 1, got["d b "].Queued(), "a counter goes on")
}

func TestASeriesKeepsItsCountersUntilItYields(t *testing.T) {
	b := newBench(t, 1)
	ended := app(process(1, "a"), verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(apps(ended))
	b.second(trace.Update{})
	b.mono += int64(keepPlaceFor) - 2*int64(time.Second)
	other := app(process(2, "b"), verbs.EventQPFatal, 1, 0, 0)
	other.Ended = true
	b.second(apps(other))
	require.EqualValues(t, 1, b.async()["d a "].Queued())
	require.EqualValues(t, 1, b.async()["d other "].Queued())
	b.second(trace.Update{})

	b.mono += int64(keepPlaceFor)
	b.second(apps(app(process(3, "c"), verbs.EventQPFatal, 1, 0, 0)))
	got := b.async()
	require.NotContains(t, got, "d a ")
	require.EqualValues(t, 1, got["d c "].Queued())
	require.EqualValues(t, 1, got["d other "].Queued())
	require.EqualValues(t, 3, b.Host().Errors, "the host's sum never falls")
}

func TestAProcessIsCountedWhereItsFirstEventWas(t *testing.T) {
	b := newBench(t, 1)
	a, x := process(1, "a"), process(2, "x")
	b.second(apps(app(a, verbs.EventQPFatal, 1, 0, 0), app(x, verbs.EventQPFatal, 0, 1, 0)))
	a.Process.Comm = "renamed"
	ended := app(a, verbs.EventQPFatal, 2, 0, 0)
	ended.Ended = true
	b.second(apps(ended))
	b.second(trace.Update{})
	b.mono += 2 * int64(keepPlaceFor)
	b.second(apps(app(x, verbs.EventQPFatal, 1, 0, 0))) // there is a free place now
	got := b.async()
	require.Len(t, got, 2)
	require.EqualValues(t, 2, got["d a "].Read)
	require.EqualValues(t, 1, got["d other "].Read)
	requireParity(t, got["d other "])
}

func TestADeviceThatComesBackGoesOnCounting(t *testing.T) {
	b := newBench(t, 9)
	b.AddListing(contexts(start, "d", process(1, "a"), process(2, "b")))
	ended := app(process(1, "a"), verbs.EventDeviceFatal, 1, 0, 0)
	ended.Ended = true
	b.second(apps(ended))
	b.RemoveDevice("d")
	require.EqualValues(t, 1, b.async()["d a "].Queued())
	require.Len(t, b.async(), 1)
	require.Len(t, b.places.assigned, 1)
	b.second(apps(app(process(3, "a"), verbs.EventDeviceFatal, 1, 0, 0)))
	require.EqualValues(t, 2, b.async()["d a "].Queued())
}

func TestEventsOfAllUnitsHaveOneTotal(t *testing.T) {
	b := newBench(t, 9, "app", "unit")
	here, there := process(1, "a"), process(2, "a")
	there.Process.Unit = "job_7"
	s := apps(app(here, verbs.EventQPFatal, 1, 0, 0), app(there, verbs.EventQPFatal, 1, 0, 0))
	s.Events = []trace.Event{event(here, verbs.EventQPFatal, 1, 1), event(there, verbs.EventQPFatal, 2, 2)}
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
	here, there := process(1, "a"), process(2, "a")
	there.Process.Unit = "job_7"
	ended := app(here, verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(apps(ended, app(there, verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	b.mono += int64(keepPlaceFor)
	ended = app(process(3, "b"), verbs.EventQPFatal, 1, 0, 0)
	ended.Ended = true
	b.second(apps(ended, app(there, verbs.EventQPFatal, 2, 0, 0)))
	b.second(trace.Update{})
	require.NotContains(t, b.async(), "d a u.service")
	total := func() uint64 {
		shown := b.shown()
		return shown[len(shown)-1].Total
	}
	b.second(apps(app(there, verbs.EventQPFatal, 3, 0, 0)))
	b.second(trace.Update{})
	require.EqualValues(t, 4, total())

	b.mono += int64(keepPlaceFor)
	b.second(apps(app(process(4, "c"), verbs.EventQPFatal, 1, 0, 0)))
	b.mono += int64(keepPlaceFor)
	b.second(apps(app(process(5, "b"), verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	require.Contains(t, b.async(), "d other ", "c has the place of b, which has begun again there")
	require.NotContains(t, b.async(), "d b u.service")
	for k := range b.tracing.emittedTotals {
		require.NotEqual(t, "b", k.app)
	}
}
