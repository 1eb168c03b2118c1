package tracetest

import (
	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

func countCases() []testCase {
	return []testCase{
		{"a process to which nothing happens is not reported", nil, nothingHappens},
		{"an event is counted by its type and comes with the number of its object", nil, anEvent},
		{"events come in the order in which they were queued", []Capability{TwoTypes}, inOrder},
		{"processes are counted apart", nil, processesAreApart},
		{"what is read is not unread, and its delay is timed", nil, readAndTimed},
		{"the longest delay is that since the Snapshot before", nil, longestDelay},
		{"what happens after quiet seconds is in the next Snapshot", nil, afterQuiet},
		{"a read moves the time since when events are unread", nil, readMovesSince},
		{"the unread events of an object go with it", nil, goWithTheirObject},
		{"events that were there before the source are unread, and found", nil, thereBefore},
		{"counts of a second source begin with it", nil, secondSource},
	}
}

func nothingHappens(s *scene) {
	w := s.watch(never)
	s.start()
	w.quiet()
	require.Zero(s, w.last.Processes)
}

func anEvent(s *scene) {
	w, p := s.watch(never), s.start()
	began := s.Now()
	number := p.Cause(s, s.typ, 3)
	done := s.Now()
	a := w.until("three unread events", p, hasUnread(3))
	want := trace.App{
		Device: s.Device(), Process: a.Process, Unread: 3, UnreadErrors: 3, UnreadSince: a.UnreadSince,
	}
	want.Queued[s.typ] = 3
	require.Equal(s, want, a)
	require.Equal(s, 1, w.last.Processes)
	require.Zero(s, w.last.Lost)
	require.Zero(s, w.last.Full)
	require.Len(s, w.events, 3)
	for _, e := range w.events {
		require.Equal(s, trace.Event{Device: s.Device(), Process: a.Process, Type: s.typ, Number: number, At: e.At}, e)
		require.GreaterOrEqual(s, e.At, began)
		require.LessOrEqual(s, e.At, done)
	}
	require.Equal(s, w.events[0].At, a.UnreadSince, "the queue was empty")
	w.quiet()
}

func inOrder(s *scene) {
	w, p := s.watch(never), s.start()
	types := []verbs.EventType{s.typ, s.f.Types[1], s.typ, s.f.Types[1], s.typ}
	numbers := map[verbs.EventType]uint32{}
	for _, typ := range types {
		numbers[typ] = p.Cause(s, typ, 1)
	}
	a := w.until("five unread events", p, hasUnread(5))
	require.EqualValues(s, 3, a.Queued[types[0]])
	require.EqualValues(s, 2, a.Queued[types[1]])
	var got []verbs.EventType
	for _, e := range w.events {
		got = append(got, e.Type)
		require.Equal(s, numbers[e.Type], e.Number)
	}
	require.Equal(s, types, got)
}

func processesAreApart(s *scene) {
	w, one, other := s.watch(never), s.start(), s.start()
	one.Cause(s, s.typ, 1)
	other.Cause(s, s.typ, 2)
	one.Cause(s, s.typ, 1)
	w.until("the events of one", one, hasUnread(2))
	w.until("the events of both", other, func(a trace.App) bool { return a.Unread == 2 && w.lastReport(one).Unread == 2 })
	require.Equal(s, 2, w.last.Processes)
	require.NotEqual(s, idOf(w.lastReport(one)), idOf(w.lastReport(other)))
	var got []int
	for _, e := range w.events {
		got = append(got, e.Process.PID)
	}
	require.Equal(s, []int{one.PID(), other.PID(), other.PID(), one.PID()}, got)

	one.Exit(s)
	w.until("the end of one", one, hasEnded)
	require.False(s, w.lastReport(other).Ended)
	require.Equal(s, 1, w.last.Processes)
}

func readAndTimed(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 2)
	caused := s.Now()
	w.until("two unread events", p, hasUnread(2))
	w.next()
	between := s.Now() - caused
	p.Read(s, 0)
	a := w.until("both read", p, hasRead(2))
	require.Zero(s, a.Unread)
	require.Zero(s, a.UnreadErrors)
	require.EqualValues(s, 2, a.Delays)
	require.GreaterOrEqual(s, a.DelayMax, between)
	require.GreaterOrEqual(s, a.DelaySum, 2*between)
	require.Len(s, w.events, 2, "a read is no event")
	w.quiet()
}

func longestDelay(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 1)
	w.until("an unread event", p, hasUnread(1))
	w.next()
	w.next()
	p.Read(s, 0)
	first := w.until("it is read", p, hasRead(1))
	p.Cause(s, s.typ, 1)
	p.Read(s, 0)
	second := w.until("the other is read", p, hasRead(2))
	require.EqualValues(s, 2, second.Delays)
	require.Equal(s, second.DelaySum, first.DelaySum+second.DelayMax)
	require.Less(s, second.DelayMax, first.DelayMax)
}

func afterQuiet(s *scene) {
	w, p := s.watch(never), s.start()
	w.quiet()
	p.Cause(s, s.typ, 1)
	w.next()
	require.EqualValues(s, 1, w.lastReport(p).Unread)
	require.Len(s, w.events, 1)
	w.quiet()
	p.Cause(s, s.typ, 2)
	w.next()
	require.EqualValues(s, 3, w.lastReport(p).Unread)
	require.Len(s, w.events, 3)
	w.quiet()
	began := s.Now()
	p.Read(s, 2)
	w.next()
	a := w.lastReport(p)
	require.EqualValues(s, 2, a.Read)
	require.EqualValues(s, 1, a.Unread)
	require.GreaterOrEqual(s, a.UnreadSince, began)
	require.Positive(s, a.DelayMax)
	w.quiet()
	p.Read(s, 1)
	w.next()
	require.EqualValues(s, 3, w.lastReport(p).Read)
}

func readMovesSince(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 3)
	first := w.until("three unread events", p, hasUnread(3))
	began := s.Now()
	p.Read(s, 1)
	done := s.Now()
	second := w.until("one is read", p, hasRead(1))
	require.EqualValues(s, 2, second.Unread)
	require.Less(s, first.UnreadSince, began)
	require.GreaterOrEqual(s, second.UnreadSince, began)
	require.LessOrEqual(s, second.UnreadSince, done)
	p.Cause(s, s.typ, 1)
	third := w.until("three are unread again", p, hasUnread(3))
	require.Equal(s, second.UnreadSince, third.UnreadSince, "an event more is no read")
}

func goWithTheirObject(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 2)
	w.until("two unread events", p, hasUnread(2))
	p.Destroy(s, s.typ)
	a := w.until("they are gone", p, func(a trace.App) bool { return a.Discarded == 2 })
	require.Zero(s, a.Unread)
	require.Zero(s, a.UnreadErrors)
	require.Zero(s, a.Delays)
	require.Zero(s, a.DestroyedUnacked, "what was not read needs no acknowledgement")
	require.False(s, a.Ended)
}

func thereBefore(s *scene) {
	p := s.start()
	p.Cause(s, s.typ, 2)
	w := s.watch(never)
	w.quiet()
	p.Cause(s, s.typ, 1)
	a := w.until("three unread events", p, func(a trace.App) bool { return a.Unread == 3 })
	require.EqualValues(s, 3, a.Queued[s.typ])
	require.EqualValues(s, 2, a.Found[s.typ])
	require.EqualValues(s, 3, a.UnreadErrors)
	require.Len(s, w.events, 1)
	p.Read(s, 0)
	a = w.until("all are read", p, hasRead(3))
	require.EqualValues(s, 1, a.Delays, "it is not known when the others came")
}

func secondSource(s *scene) {
	first, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 2)
	p.Read(s, 0)
	first.until("two read", p, hasRead(2))
	second := s.watch(never)
	p.Cause(s, s.typ, 1)
	one, other := first.until("the third", p, hasUnread(1)), second.until("the third", p, hasUnread(1))
	require.EqualValues(s, 3, one.Queued[s.typ])
	require.EqualValues(s, 1, other.Queued[s.typ])
	require.Zero(s, other.Read)
	require.Equal(s, one.Process, other.Process)
	require.Equal(s, first.events[2].At, one.UnreadSince)
	require.Equal(s, second.events[0].At, other.UnreadSince, "each has its own clock reading")
}
