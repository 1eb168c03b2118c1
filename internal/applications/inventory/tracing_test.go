package inventory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// bench is a Picture with a tracer.
type bench struct {
	*testing.T
	*Picture
	mono   int64 // ns
	events []*measure.AppEvent
}

func newBench(t *testing.T, most int, by ...string) *bench {
	t.Helper()
	if len(by) == 0 {
		by = []string{"app"}
	}
	p, err := NewPicture(Options{By: by, MaxSeries: most, Events: true})
	require.NoError(t, err)
	b := &bench{T: t, Picture: p}
	b.begin()
	return b
}

func (b *bench) now() Moment { return Moment{Wall: start.Add(time.Duration(b.mono)), Mono: b.mono} }

func (b *bench) emit(p measure.Point) { b.events = append(b.events, p.(*measure.AppEvent)) }

func (b *bench) begin() { b.Attach(&trace.Attached{Hooks: "sim"}, b.now(), b.emit) }

func (b *bench) end() { b.Detach(b.now(), b.emit) }

// second handles the Update of another second.
func (b *bench) second(s trace.Update) {
	b.mono += int64(time.Second)
	s.Mono = b.mono
	b.Trace(&s, b.now(), b.emit)
}

// shown returns the points of events since the previous call.
func (b *bench) shown() []*measure.AppEvent {
	events := b.events
	b.events = nil
	return events
}

// async returns the points of rdma_app_async by "device app unit".
func (b *bench) async() map[string]*measure.AppAsync {
	points := map[string]*measure.AppAsync{}
	now := b.now()
	for _, p := range b.Events(&now, &Worker{}) {
		if a, ok := p.(*measure.AppAsync); ok {
			points[a.Device+" "+a.App+" "+a.Unit] = a
		}
	}
	return points
}

func (b *bench) hanging() []*measure.AppHang {
	now := b.now()
	return b.tracing.hanging.points(&now)
}

func (b *bench) health(w Worker) *measure.Tracer {
	now := b.now()
	return b.tracing.health.newPoint(&w, &now)
}

// appCounts returns the counts of a process on device d: events that are read, unread and discarded.
func appCounts(who Owner, typ verbs.EventType, read, unread, discarded uint64) trace.App {
	a := trace.App{Device: "d", Process: who.Process, Read: read, Unread: unread, Discarded: discarded}
	a.Queued[typ] = read + unread + discarded
	if trace.IsError(typ) {
		a.UnreadErrors = unread
	}
	return a
}

func updateOf(all ...trace.App) trace.Update { return trace.Update{Apps: all} }

func appEvent(who Owner, typ verbs.EventType, number uint32, at int64) trace.Event {
	return trace.Event{Device: "d", Process: who.Process, Type: typ, Number: number, At: at}
}

func requireParity(t *testing.T, a *measure.AppAsync) {
	t.Helper()
	require.Equal(t, a.Queued(), a.Read+a.Discarded+a.Skipped+a.Unread, "%+v", a)
}

func TestEventsAreAddedUpByApplication(t *testing.T) {
	b := newBench(t, 9)
	one, two := newProcess(1, "a"), newProcess(2, "a")
	first := appCounts(one, verbs.EventQPFatal, 1, 2, 0)
	first.UnreadSince, first.Delays, first.DelaySum, first.DelayMax, first.DestroyedUnacked = int64(time.Second)/4, 1, 500, 500, 3
	second := appCounts(two, verbs.EventCommEst, 4, 0, 1)
	second.Skipped, second.Delays, second.DelaySum, second.DelayMax = 1, 4, 100, 70
	second.Queued[verbs.EventCommEst]++
	b.second(updateOf(first, second))

	want := &measure.AppAsync{
		Device: "d", App: "a", Attached: true, Unread: 2, UnreadErrors: 2, UnreadAge: int64(3 * time.Second / 4),
		Delay: aggregate.Stat{Count: 5, Mean: 120, Max: 500}, At: b.now().Wall,
	}
	want.AppCounts = measure.AppCounts{Processes: 2, Read: 5, Discarded: 1, Skipped: 1, DestroyedUnacked: 3}
	want.Types[verbs.EventQPFatal], want.Types[verbs.EventCommEst] = 3, 6
	require.Equal(t, map[string]*measure.AppAsync{"d a ": want}, b.async())
	require.Equal(t, aggregate.Stat{}, b.async()["d a "].Delay, "another interval")
	require.Equal(t, &measure.HostApps{Errors: 3, UnreadErrors: 2, Attached: true}, b.Host())
}

func TestEachEventIsAPointAtItsTime(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	s := updateOf(appCounts(a, verbs.EventQPFatal, 2, 0, 0))
	s.Events = []trace.Event{
		appEvent(a, verbs.EventQPFatal, 284, 300), appEvent(a, verbs.EventPortErr, 1, 350), appEvent(a, 77, 1, 360), appEvent(a, verbs.EventQPFatal, 0, 400),
	}
	b.second(s)
	point := func(number uint32, total uint64, after time.Duration) *measure.AppEvent {
		at := start.Add(after)
		return &measure.AppEvent{
			Device: "d", App: "a", Type: verbs.EventQPFatal, Count: 1, Total: total, First: at, PID: 1, Number: number,
			Unit: "u.service", At: at,
		}
	}
	require.Equal(t, []*measure.AppEvent{point(284, 1, 300), point(0, 2, 400)}, b.shown())
}

func TestWhatWasCountedAndDidNotComeIsAPointWithoutNumber(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 3, 0, 0)))
	require.Empty(t, b.shown(), "the events may still come")
	b.second(trace.Update{Events: []trace.Event{appEvent(a, verbs.EventQPFatal, 284, 1)}, Lost: 2})
	shown := b.shown()
	require.Len(t, shown, 2)
	require.EqualValues(t, 284, shown[0].Number)
	at := b.now().Wall
	require.Equal(t, &measure.AppEvent{
		Device: "d", App: "a", Type: verbs.EventQPFatal, Count: 2, Total: 3, First: at, PID: 1, Unit: "u.service", At: at,
	}, shown[1])
	b.second(trace.Update{})
	require.Empty(t, b.shown())
}

// total returns the number of events in the points since the previous call.
func (b *bench) total() (n uint64) {
	for _, e := range b.shown() {
		n += e.Count
	}
	return n
}

// Two seconds have more events than fit into an Update. The tracer sends the remaining ones in the following seconds.
func TestStormWithLateEventsIsShownOnce(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	const each = trace.MaxEvents + 3000
	var waiting []trace.Event
	for second := range uint64(7) {
		var s trace.Update
		if second < 2 {
			s = updateOf(appCounts(a, verbs.EventQPFatal, 0, (second+1)*each, 0))
			for i := range uint32(each) {
				waiting = append(waiting, appEvent(a, verbs.EventQPFatal, i+1, b.mono))
			}
		}
		n := min(len(waiting), trace.MaxEvents)
		s.Events, waiting = waiting[:n], waiting[n:]
		b.second(s)
		var shown uint64
		for _, e := range b.events {
			shown += e.Count
		}
		require.LessOrEqual(t, shown, b.async()["d a "].Types[verbs.EventQPFatal])
	}
	require.EqualValues(t, 2*each, b.total())
	require.EqualValues(t, 2*each, b.async()["d a "].Types[verbs.EventQPFatal])
}

// The tracer holds back the counts of a process for a second if they changed while it read them.
func TestEventBeforeItsCountKeepsItsNumber(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	b.second(trace.Update{Events: []trace.Event{appEvent(a, verbs.EventQPFatal, 284, 1)}})
	require.Empty(t, b.shown())
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 1, 0, 0)))
	shown := b.shown()
	require.Len(t, shown, 1)
	require.EqualValues(t, 284, shown[0].Number)
	b.second(trace.Update{})
	require.Empty(t, b.shown())
}

func TestEventsThatAreNeverCountedAreNotShown(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	b.second(trace.Update{Events: []trace.Event{appEvent(a, verbs.EventQPFatal, 1, 1), appEvent(a, verbs.EventQPFatal, 2, 1)}})
	for range 3 {
		b.second(trace.Update{})
	}
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 1, 0, 0)))
	b.second(trace.Update{})
	require.EqualValues(t, 1, b.total())
}

func TestAnEventOfAProcessThatHasEndedIsNotCountedTwice(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	last := appCounts(a, verbs.EventQPFatal, 1, 1, 0)
	last.Ended = true
	b.second(updateOf(last))
	b.second(trace.Update{Events: []trace.Event{appEvent(a, verbs.EventQPFatal, 1, 1), appEvent(a, verbs.EventQPFatal, 2, 2)}})
	b.second(trace.Update{})
	require.Len(t, b.shown(), 2)
	require.Empty(t, b.tracing.processes)
	got := b.async()
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got["d a "].Queued())
	require.EqualValues(t, 1, got["d a "].Discarded, "what it had not read went with it")
	require.EqualValues(t, 1, got["d a "].Processes)
	requireParity(t, got["d a "])
}

func TestAProcessThatOpensTheDeviceAgainCountsFromZero(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	last := appCounts(a, verbs.EventCommEst, 5, 0, 0)
	last.Ended = true
	b.second(updateOf(last))
	b.second(updateOf(appCounts(a, verbs.EventCommEst, 2, 1, 0)))
	b.second(updateOf(appCounts(a, verbs.EventCommEst, 3, 0, 0)))
	b.second(updateOf(appCounts(a, verbs.EventCommEst, 4, 0, 0)))
	got := b.async()["d a "]
	require.EqualValues(t, 9, got.Queued())
	require.EqualValues(t, 1, got.Processes)
	requireParity(t, got)
}

func TestACounterDoesNotFallWhenATracerCountsFromZeroAgain(t *testing.T) {
	b := newBench(t, 9)
	a := newProcess(1, "a")
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 3, 0, 0)))
	b.end()
	require.Len(t, b.shown(), 1, "no event comes any more")
	b.begin()
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 1, 1, 0)))
	got := b.async()["d a "]
	require.EqualValues(t, 5, got.Queued())
	require.EqualValues(t, 4, got.Read)
	require.EqualValues(t, 1, got.Processes)
	requireParity(t, got)
}

func TestWhatATracerFindsInAQueueIsCountedOnce(t *testing.T) {
	b := newBench(t, 9)
	a, late := newProcess(1, "a"), newProcess(2, "late")
	before := appCounts(a, verbs.EventQPFatal, 0, 2, 0)
	before.Queued[verbs.EventCommEst], before.Unread = 1, 3
	b.second(updateOf(before))
	b.end()
	require.False(t, b.async()["d a "].Attached)
	b.begin()
	got := b.async()["d a "]
	require.EqualValues(t, 3, got.Unread, "as long as nothing else is heard")
	requireParity(t, got)

	// Two of the three were read in the gap, and two errors were queued, one of another kind.
	found := appCounts(a, verbs.EventQPFatal, 0, 2, 0)
	found.Queued[verbs.EventCQErr], found.Unread, found.UnreadErrors = 1, 3, 3
	found.Found = found.Queued
	before = appCounts(late, verbs.EventWQFatal, 0, 1, 0)
	before.Found = before.Queued
	b.second(updateOf(found, before))
	got = b.async()["d a "]
	require.EqualValues(t, 2, got.Types[verbs.EventQPFatal])
	require.EqualValues(t, 1, got.Types[verbs.EventCQErr])
	require.EqualValues(t, 1, got.Types[verbs.EventCommEst])
	require.EqualValues(t, 1, got.Read)
	requireParity(t, got)
	require.EqualValues(t, 1, b.async()["d late "].UnreadErrors, "nobody had counted it")
}

func TestTheUnreadEventsOfAProcessThatEndedWithoutATracerAreDiscarded(t *testing.T) {
	b := newBench(t, 9)
	a, alive := newProcess(1, "a"), newProcess(2, "alive")
	b.second(updateOf(appCounts(a, verbs.EventQPFatal, 0, 2, 0), appCounts(alive, verbs.EventQPFatal, 0, 1, 0)))
	require.Empty(t, b.CarriedProcesses())
	b.end()
	ids := b.CarriedProcesses()
	require.Len(t, ids, 2)
	b.begin()
	b.second(updateOf(appCounts(alive, verbs.EventQPFatal, 0, 1, 0)))
	b.RemoveProcesses(ids, b.now().Wall)
	require.EqualValues(t, 2, b.async()["d a "].Discarded)
	require.Zero(t, b.async()["d alive "].Discarded, "a tracer tells of it again")
	require.Len(t, b.tracing.processes, 1)
}

func TestWhatFoundNoPlaceIsOther(t *testing.T) {
	b := newBench(t, 9)
	s := updateOf(appCounts(Owner{}, verbs.EventQPFatal, 1, 1, 0))
	s.Events = []trace.Event{appEvent(newProcess(7, "nameless"), verbs.EventQPFatal, 5, 1)}
	b.second(s)
	got := b.async()
	require.Len(t, got, 1)
	require.EqualValues(t, 2, got["d other "].Queued())
	require.Zero(t, got["d other "].Processes, "nobody knows how many they are")
	shown := b.shown()
	require.Len(t, shown, 1)
	require.Equal(t, "other", shown[0].App)
	require.Equal(t, 7, shown[0].PID)
	b.end()
	b.begin()
	requireParity(t, b.async()["d other "])
	require.Zero(t, b.async()["d other "].Unread)
}

func TestWithoutATracerThereAreNoPointsOfOne(t *testing.T) {
	p := newPicture(t, 9)
	p.AddListing(contextListing(start, "d", newProcess(1, "a")))
	require.Empty(t, p.Events(&Moment{Wall: start}, &Worker{}))
	require.Nil(t, p.Host())
}

func TestThePointsAreInTheOrderOfDeviceAndApplication(t *testing.T) {
	b := newBench(t, 9)
	one, two, three := appCounts(newProcess(3, "b"), 0, 1, 0, 0), appCounts(newProcess(2, "a"), 0, 1, 0, 0), appCounts(newProcess(1, "z"), 0, 1, 0, 0)
	three.Device = "c"
	b.second(updateOf(one, two, three))
	var names []string
	for _, a := range b.asyncPoints(&Moment{Wall: start}) {
		names = append(names, a.Device+" "+a.App)
	}
	require.Equal(t, []string{"c z", "d a", "d b"}, names)
}
