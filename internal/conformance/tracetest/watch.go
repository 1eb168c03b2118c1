package tracetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// patience is the number of Snapshots, one a second, after which the suite gives up waiting for an expected change.
const patience = 15

// never is the hang threshold of the cases that are not about hangs: no wait in them lasts that long.
const never = time.Hour

// watch is an open source, and what it has reported.
type watch struct {
	*scene
	src    trace.Source
	last   *trace.Update
	apps   map[identity.ID]trace.App // as they were reported last
	events []trace.Event
	hangs  []trace.Hang
}

// watch opens a source.
func (s *scene) watch(hangAfter time.Duration) *watch {
	s.Helper()
	src, err := s.Open(hangAfter)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, src.Close()) })
	return &watch{scene: s, src: src, apps: map[identity.ID]trace.App{}}
}

// next calls Next once, and makes the checks that hold for each Snapshot.
func (w *watch) next() *trace.Update {
	w.Helper()
	type result struct {
		snap *trace.Update
		err  error
	}
	done := make(chan result, 1)
	go func() {
		snap, err := w.src.Next(context.Background())
		done <- result{snap, err}
	}()
	timeout := time.NewTimer(patience * time.Second)
	defer timeout.Stop()
	select {
	case r := <-done:
		require.NoError(w, r.err)
		w.addSnapshot(r.snap)
		return r.snap
	case <-timeout.C:
		w.Fatalf("Next does not return")
		return nil
	}
}

// addSnapshot checks a Snapshot and stores what it reports.
func (w *watch) addSnapshot(snap *trace.Update) {
	w.Helper()
	if w.last != nil {
		require.Greater(w, snap.Mono, w.last.Mono)
		require.GreaterOrEqual(w, snap.Lost, w.last.Lost)
		require.GreaterOrEqual(w, snap.Full, w.last.Full)
	}
	require.LessOrEqual(w, snap.Mono, w.Now())
	for _, e := range snap.Events {
		w.addEvent(snap, e)
	}
	reported := map[identity.ID]bool{}
	for _, a := range snap.Apps {
		require.False(w, reported[idOf(a)], "once in a Snapshot")
		reported[idOf(a)] = true
		w.addApp(snap, a)
	}
	for _, h := range snap.Hangs {
		require.Equal(w, w.Device(), h.Device)
		require.LessOrEqual(w, h.Since, snap.Mono)
		require.Positive(w, h.Thread)
		require.Contains(w, []trace.Proof{trace.ProofAsleep, trace.ProofWaiting}, h.Proof)
	}
	w.hangs = append(w.hangs, snap.Hangs...)
	w.last = snap
}

func (w *watch) addEvent(snap *trace.Update, e trace.Event) {
	w.Helper()
	if n := len(w.events); n > 0 {
		require.GreaterOrEqual(w, e.At, w.events[n-1].At, "in the order in which they were queued")
	}
	require.LessOrEqual(w, e.At, snap.Mono)
	require.Equal(w, w.Device(), e.Device)
	require.NotEqual(w, verbs.ScopePort, e.Type.Scope())
	require.Equal(w, e.Type.Scope() == verbs.ScopeDevice, e.Number == 0)
	w.events = append(w.events, e)
}

func (w *watch) addApp(snap *trace.Update, a trace.App) {
	w.Helper()
	id, before := idOf(a), w.apps[idOf(a)]
	require.Equal(w, w.Device(), a.Device)
	require.NotEmpty(w, a.Process.Comm)
	require.False(w, before.Ended, "nothing comes after the end")
	require.NotEqual(w, before, a, "something has changed")
	require.Equal(w, queuedEvents(a), a.Read+a.Discarded+a.Skipped+a.Unread, "%+v", a)
	require.LessOrEqual(w, a.UnreadErrors, a.Unread)
	require.Equal(w, a.Unread == 0, a.UnreadSince == 0, "%+v", a)
	require.LessOrEqual(w, a.UnreadSince, snap.Mono)
	require.LessOrEqual(w, a.Delays, a.Read)
	require.GreaterOrEqual(w, a.DelaySum, a.DelayMax)
	for typ := range a.Queued {
		require.GreaterOrEqual(w, a.Queued[typ], before.Queued[typ])
		if verbs.EventType(typ).Scope() == verbs.ScopePort {
			require.Zero(w, a.Queued[typ])
		}
	}
	if before.Process.PID != 0 {
		require.Equal(w, before.Found, a.Found)
	}
	require.GreaterOrEqual(w, a.Read, before.Read)
	require.GreaterOrEqual(w, a.Discarded, before.Discarded)
	require.GreaterOrEqual(w, a.DestroyedUnacked, before.DestroyedUnacked)
	require.GreaterOrEqual(w, a.Delays, before.Delays)
	if a.Ended {
		require.Zero(w, a.Unread, "nothing is in a queue that is gone")
	}
	w.apps[id] = a
}

func idOf(a trace.App) identity.ID { return a.Process.ID() }

func queuedEvents(a trace.App) uint64 {
	var sum uint64
	for _, n := range a.Queued {
		sum += n
	}
	return sum
}

// lastReport returns the last report about a process, or a zero App if there was none.
func (w *watch) lastReport(p Process) trace.App {
	for _, a := range w.apps {
		if a.Process.PID == p.PID() {
			return a
		}
	}
	return trace.App{}
}

// until reads Snapshots until a condition holds for a process, and returns the last report about it.
func (w *watch) until(what string, p Process, holds func(trace.App) bool) trace.App {
	w.Helper()
	for range patience {
		if w.next(); holds(w.lastReport(p)) {
			return w.lastReport(p)
		}
	}
	w.Fatalf("%s: not in %d seconds; %+v", what, patience, w.lastReport(p))
	return trace.App{}
}

// untilHang reads Snapshots until one has a hang, and returns the hang.
func (w *watch) untilHang() trace.Hang {
	w.Helper()
	for range patience {
		if snap := w.next(); len(snap.Hangs) > 0 {
			require.Len(w, snap.Hangs, 1)
			return snap.Hangs[0]
		}
	}
	w.Fatalf("no hang in %d seconds", patience)
	return trace.Hang{}
}

// untilOver reads Snapshots until one has no hang. Earlier Snapshots must have the hang h and no other.
func (w *watch) untilOver(h trace.Hang) {
	w.Helper()
	for range patience {
		snap := w.next()
		if len(snap.Hangs) == 0 {
			return
		}
		require.Len(w, snap.Hangs, 1)
		last := snap.Hangs[0]
		require.Equal(w, []any{h.Process, h.Thread, h.Since}, []any{last.Process, last.Thread, last.Since})
	}
	w.Fatalf("a hang that has not ended in %d seconds", patience)
}

// noHang reads Snapshots until one is from the time until or later. None may have a hang.
func (w *watch) noHang(until int64) {
	w.Helper()
	for w.last == nil || w.last.Mono < until {
		w.next()
	}
	require.Empty(w, w.hangs)
}

// quiet reads two Snapshots, which must not report any process.
func (w *watch) quiet() {
	w.Helper()
	for range 2 {
		snap := w.next()
		require.Empty(w, snap.Apps)
		require.Empty(w, snap.Events)
	}
}

func hasUnread(n uint64) func(trace.App) bool {
	return func(a trace.App) bool { return a.Unread == n && queuedEvents(a) >= n }
}

func hasRead(n uint64) func(trace.App) bool { return func(a trace.App) bool { return a.Read == n } }

func hasEnded(a trace.App) bool { return a.Ended }
