package verbstest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// patience is the time that the suite waits for something that must happen. Only a
// failing test waits that long.
const patience = 10 * time.Second

// quiet is the time that the suite waits for something that must not happen.
const quiet = 50 * time.Millisecond

// session is a device opened for one case.
type session struct {
	t   *testing.T
	f   *Fixture
	dev verbs.Device
	led *ledger.Ledger

	rings  *verbs.Inbox
	rounds []verbs.RoundItem // read by readRings, besides runs
}

// readRings reads the rings of the ledger, stores the rounds, and returns the runs.
func (s *session) readRings() []verbs.Run {
	s.t.Helper()
	items, err := s.rings.Merge(nil, clock.Monotonic())
	require.NoError(s.t, err)
	var runs []verbs.Run
	for _, it := range items {
		if it.Run != nil {
			runs = append(runs, *it.Run)
		} else {
			s.rounds = append(s.rounds, *it.Round)
		}
	}
	return runs
}

// readRounds returns the rounds in the rings since the last call.
func (s *session) readRounds() []verbs.RoundItem {
	s.t.Helper()
	require.Empty(s.t, s.readRings(), "runs without a call of ReadEvents")
	rounds := s.rounds
	s.rounds = nil
	return rounds
}

// openSession opens the device and waits until its port is active.
func openSession(t *testing.T, f *Fixture) *session {
	t.Helper()
	led, file, err := ledger.New(f.Device)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, file.Close())
		require.NoError(t, led.Close())
	})
	dev, err := f.Backend.Open(f.Device, led)
	require.NoError(t, err)
	s := &session{t: t, f: f, dev: dev, led: led, rings: verbs.NewInbox(led)}
	t.Cleanup(func() {
		if err := s.close(); !errors.Is(err, verbs.ErrClosed) {
			require.NoError(t, err)
		}
	})
	s.awaitState("active", func(a verbs.PortAttr) bool { return a.State == verbs.PortActive })
	return s
}

// close closes the device, and fails the test if that takes longer than patience.
func (s *session) close() error {
	s.t.Helper()
	return callInTime(s.t, "Close", func() error { return s.dev.Close(patience) })
}

// callInTime runs a call that may block. It fails the test if the call takes longer than patience.
func callInTime[T any](t testing.TB, what string, call func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- call() }()
	return receiveInTime(t, what, done)
}

func receiveInTime[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case v := <-from:
		return v
	case <-timeout.C:
		t.Fatalf("%s: not within %v", what, patience)
		panic("unreachable")
	}
}

func (s *session) awaitState(what string, want func(verbs.PortAttr) bool) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		attr, err := s.dev.QueryPort(s.f.Port)
		return err == nil && want(attr)
	}, patience, 2*time.Millisecond, "port %d does not become %s", s.f.Port, what)
}

// linkDown takes the link down until linkUp or the end of the case.
func (s *session) linkDown() {
	s.t.Helper()
	s.t.Cleanup(func() { s.f.LinkUp(s.t) })
	s.f.LinkDown(s.t)
}

func (s *session) linkUp() {
	s.t.Helper()
	s.f.LinkUp(s.t)
}

// readEvents calls ReadEvents once, and makes the checks that hold after every call.
func (s *session) readEvents(size int, wait time.Duration) []verbs.Run {
	s.t.Helper()
	type result struct {
		n   int
		err error
	}
	runs := make([]verbs.Run, size)
	r := callInTime(s.t, "ReadEvents", func() result {
		n, err := s.dev.ReadEvents(runs, wait)
		return result{n, err}
	})
	require.NoError(s.t, r.err)
	for _, e := range s.snapshot().Events {
		require.Equal(s.t, e.Read, e.Acked, "of %v, after ReadEvents returned", verbs.EventType(e.Type))
	}
	for _, run := range runs[:r.n] {
		requirePlausible(s.t, run)
	}
	require.Equal(s.t, runs[:r.n], append([]verbs.Run{}, s.readRings()...), "the ring of the ledger has them too")
	return runs[:r.n]
}

func requirePlausible(t *testing.T, r verbs.Run) {
	t.Helper()
	require.NotZero(t, r.Count)
	require.Positive(t, r.First)
	require.LessOrEqual(t, r.First, r.Last)
	require.GreaterOrEqual(t, r.AckMax, int64(0))
	require.GreaterOrEqual(t, r.HoldMax, r.AckMax)
	require.GreaterOrEqual(t, r.AckSum, r.AckMax)
	require.GreaterOrEqual(t, r.HoldSum, r.HoldMax)
	require.GreaterOrEqual(t, r.HoldSum, r.AckSum)
	require.LessOrEqual(t, r.HoldMax, int64(patience))
	if r.Type.Scope() != verbs.ScopePort {
		require.Zero(t, r.Port, "port of %v", r.Type)
	} else {
		require.Positive(t, r.Port, "port of %v", r.Type)
	}
}

// readUntil reads events until the runs satisfy done. It returns the runs of the given
// types on the fixture's port or on no port: a device may raise more events than
// requested, such as port_active once too often.
func (s *session) readUntil(what string, size int, types []verbs.EventType, done func([]verbs.Run) bool) []verbs.Run {
	s.t.Helper()
	var got []verbs.Run
	for end := time.Now().Add(patience); !done(got); {
		left := time.Until(end)
		require.Positive(s.t, left, "%s: not within %v; read %v", what, patience, got)
		got = append(got, s.ofTypes(types, s.readEvents(size, left))...)
	}
	return got
}

func (s *session) ofTypes(types []verbs.EventType, runs []verbs.Run) []verbs.Run {
	var kept []verbs.Run
	for _, r := range runs {
		for _, typ := range types {
			if r.Type == typ && (r.Port == 0 || r.Port == s.f.Port) {
				kept = append(kept, r)
			}
		}
	}
	return kept
}

// awaitEvents reads until count events of one type have come. It then reads for the
// time quiet, in which no further event of the type may come.
func (s *session) awaitEvents(typ verbs.EventType, count uint64) []verbs.Run {
	s.t.Helper()
	types := []verbs.EventType{typ}
	got := s.readUntil(typ.String(), ampleRuns, types, func(runs []verbs.Run) bool { return totalCount(runs) >= count })
	got = append(got, s.ofTypes(types, s.readEvents(ampleRuns, quiet))...)
	require.Equal(s.t, count, totalCount(got), "events of type %v", typ)
	return got
}

func totalCount(runs []verbs.Run) uint64 {
	var n uint64
	for _, r := range runs {
		n += r.Count
	}
	return n
}

func (s *session) snapshot() ledger.Contents {
	var snap ledger.Contents
	s.led.CopyTo(&snap)
	return snap
}

// counted returns the ledger's count of acknowledged events of one type on one
// port.
func (s *session) counted(typ verbs.EventType, port int) uint64 {
	for _, e := range s.snapshot().Events {
		if e.Type == int32(typ) && e.Port == int32(port) {
			return e.Acked
		}
	}
	return 0
}
