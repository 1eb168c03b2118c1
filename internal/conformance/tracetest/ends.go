package tracetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

func endCases() []testCase {
	return []testCase{
		{"what is attached does not change", nil, attachedStays},
		{"a process ends once, and its unread events with it", nil, processEnds},
		{"a process that begins and ends within a second is counted", nil, shortProcess},
		{"a Next whose context ends loses nothing", nil, contextEnds},
		{"Close ends a Next that waits", nil, closeWakes},
		{"the last changes come after Close, once", nil, lastChanges},
		{"a source begins without a device", []Capability{Removal}, noDevice},
		{"the source goes on after the last device has gone", []Capability{Removal}, lastDeviceGoes},
		{"a hang is seen after its device has gone", []Capability{Removal, Fatal, Hanging}, hangOutlivesDevice},
		{"a process learns of the removal, and loses its objects", []Capability{Removal, Fatal}, removalIsFatal},
	}
}

func attachedStays(s *scene) {
	w := s.watch(never)
	was := w.src.Attached()
	require.NotEmpty(s, was.Hooks)
	require.GreaterOrEqual(s, was.Load, time.Duration(0))
	p := s.start()
	p.Cause(s, s.typ, 1)
	w.until("an event", p, hasUnread(1))
	require.Equal(s, was, w.src.Attached())
}

func processEnds(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 3)
	p.Read(s, 1)
	w.until("two unread events", p, hasUnread(2))
	p.Exit(s)
	a := w.until("the end", p, hasEnded)
	require.EqualValues(s, 3, a.Queued[s.typ])
	require.EqualValues(s, 1, a.Read)
	require.EqualValues(s, 2, a.Discarded)
	w.quiet()
	require.Zero(s, w.last.Processes)
}

func shortProcess(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 1)
	p.Exit(s)
	a := w.until("the end", p, hasEnded)
	require.EqualValues(s, 1, a.Queued[s.typ])
	require.EqualValues(s, 1, a.Discarded)
	require.Len(s, w.events, 1)
}

func contextEnds(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 1)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := w.src.Next(ctx)
	require.ErrorIs(s, err, context.Canceled)
	w.until("the event", p, hasUnread(1))
	require.Len(s, w.events, 1)
}

func closeWakes(s *scene) {
	w := s.watch(never)
	ended := make(chan error, 1)
	go func() {
		_, err := w.src.Next(context.Background()) // the last changes
		if err == nil {
			_, err = w.src.Next(context.Background())
		}
		ended <- err
	}()
	require.NoError(s, w.src.Close())
	select {
	case err := <-ended:
		require.ErrorIs(s, err, trace.ErrClosed)
	case <-time.After(patience * time.Second):
		s.Fatal("Next waits on")
	}
}

func lastChanges(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 1)
	w.until("an event", p, hasUnread(1))
	p.Cause(s, s.typ, 1)
	require.NoError(s, w.src.Close())
	w.next()
	require.EqualValues(s, 2, w.lastReport(p).Unread)
	require.Len(s, w.events, 2)
	for range 2 {
		snap, err := w.src.Next(s.Context())
		require.ErrorIs(s, err, trace.ErrClosed)
		require.Nil(s, snap)
	}
	require.NoError(s, w.src.Close(), "again")
}

func noDevice(s *scene) {
	s.Remove(s)
	s.watch(never).quiet()
}

func lastDeviceGoes(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 1)
	w.until("an event", p, hasUnread(1))
	s.Remove(s)
	a := w.until("its event goes with its object", p, func(a trace.App) bool { return a.Discarded == 1 })
	require.EqualValues(s, 1, a.Queued[s.typ])
	w.next()
	w.quiet()
}

// hangOutlivesDevice has a thread that waits for an acknowledgement while the driver takes the device away.
func hangOutlivesDevice(s *scene) {
	w, p := s.watch(2*time.Second), s.start()
	p.Cause(s, s.typ, 1)
	p.Hold(s)
	p.Destroy(s, s.typ)
	s.Remove(s)
	h := w.untilHang()
	require.Equal(s, p.PID(), h.Process.PID)
	require.Equal(s, s.Device(), h.Device)
}

func removalIsFatal(s *scene) {
	w, p := s.watch(never), s.start()
	p.Cause(s, s.typ, 2)
	w.until("two unread events", p, hasUnread(2))
	s.Remove(s)
	a := w.until("its objects are gone", p, func(a trace.App) bool { return a.Discarded == 2 })
	require.EqualValues(s, 1, a.Queued[verbs.EventDeviceFatal])
	require.EqualValues(s, 2, a.Discarded)
	require.EqualValues(s, 1, a.Unread, "the queue is there until the process closes it")
	require.EqualValues(s, 1, a.UnreadErrors)
	last := w.events[len(w.events)-1]
	require.Equal(s, verbs.EventDeviceFatal, last.Type)
	require.Zero(s, last.Number)
}
