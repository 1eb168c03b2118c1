package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

// smallHost is a host on which all starts share one processor. A start takes 50 ms
// of it.
type smallHost struct {
	mu       sync.Mutex
	starting int
	most     int // the most starts at once
}

func (h *smallHost) begin() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting++
	h.most = max(h.most, h.starting)
	return time.Duration(h.starting) * 50 * time.Millisecond
}

func (h *smallHost) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting--
}

// launch starts a process that completes the handshake unless it is too late.
func (h *smallHost) launch(_ Attempt[message], files []*os.File, deliver func(message) error) (instance, error) {
	p := newFakeProcess(deliver)
	takes := h.begin()
	go func() {
		<-time.After(min(takes, DefaultTiming().Start))
		h.end()
		close(p.started)
		if takes > DefaultTiming().Start {
			p.die(unix.SIGKILL)
			return
		}
		runFor(time.Hour)(p)
	}()
	return p, files[0].Close()
}

func TestManyChildrenOfASmallHostStartInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, starts := &smallHost{}, newStarts(3)
		ctx, cancel := context.WithCancel(t.Context())
		var all []*recorder
		var running sync.WaitGroup
		for range 256 {
			r := newRecorder()
			c := testSpec()
			c.Starts, c.Log = starts, r.logger()
			s := New(c, &testContract{recorder: r})
			s.launch = host.launch
			running.Go(func() { _ = s.Run(ctx) })
			all = append(all, r)
		}
		passTime(time.Minute)
		require.Equal(t, 3, host.most, "starts at once")
		for _, r := range all {
			require.Empty(t, r.logged())
			require.Equal(t, status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 4711}, r.statuses[len(r.statuses)-1])
		}
		cancel()
		running.Wait()
	})
}

func TestPlaceIsFreeAgainAfterEachKindOfStart(t *testing.T) {
	for name, begin := range map[string]func(p *fakeProcess) error{
		"it shakes hands":          func(p *fakeProcess) error { close(p.started); return nil },
		"it dies before":           func(p *fakeProcess) error { p.die(unix.SIGSEGV); return nil },
		"it is not made":           func(*fakeProcess) error { return unix.EMFILE },
		"the kernel does not free": func(p *fakeProcess) error { p.set(true, true); close(p.streamed); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, starts := newRecorder(), newStarts(1)
				p := newFakeProcess(nil)
				c := testSpec()
				c.Starts = starts
				s := New(c, &testContract{recorder: r})
				s.launch = func(_ Attempt[message], files []*os.File, _ func(message) error) (instance, error) {
					require.Len(t, starts.places, 1)
					return p, errors.Join(begin(p), files[0].Close())
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = s.Run(ctx) })
				synctest.Wait()
				require.Empty(t, starts.places)
				cancel()
				running.Wait()
			})
		})
	}
}

func TestWaitForAPlaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := newStarts(1)
		leave, ok := starts.acquire(t.Context())
		require.True(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, ok = starts.acquire(ctx)
		require.False(t, ok)
		leave()
		leave()
		require.Empty(t, starts.places)
	})
}

func TestHandshakeHasItsTimeFromTheFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kills atomic.Int32
		l := newLimit(5*time.Second, func() { kills.Add(1) })
		passTime(time.Hour)
		require.False(t, l.isLate(), "it is not forked yet")
		l.start()
		passTime(4 * time.Second)
		require.Zero(t, kills.Load())
		passTime(time.Second)
		require.Equal(t, int32(1), kills.Load())
		require.True(t, l.isLate())
		<-l.over
	})
}

// When a paused guest runs again, its timers expire.
func TestHandshakeHasItsTimeOnceMoreAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kills atomic.Int32
		l := newLimit(5*time.Second, func() { kills.Add(1) })
		l.start()
		passTime(4 * time.Second)
		l.mu.Lock()
		l.due = l.due.Add(-20 * time.Second) // the clocks went on
		l.mu.Unlock()
		passTime(5 * time.Second)
		require.Zero(t, kills.Load())
		passTime(time.Second)
		require.Equal(t, int32(1), kills.Load(), "it has not shaken hands after the pause either")
	})
}

func TestSlowChildHasMoreTimeForItsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kills atomic.Int32
		l := newLimit(5*time.Second, func() { kills.Add(1) })
		l.more = time.Minute
		l.start()
		l.report("starting")
		passTime(5 * time.Second)
		require.Zero(t, kills.Load())
		<-l.slow
		l.report("loading")
		passTime(59 * time.Second)
		require.Zero(t, kills.Load())
		passTime(time.Second)
		require.Equal(t, int32(1), kills.Load())
		require.True(t, l.isLate())
		require.Equal(t, "loading", l.current())
	})
}

func TestSlowStartGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, starts := newRecorder(), newStarts(1)
		p := newFakeProcess(nil)
		p.slow = make(chan struct{})
		c := testSpec()
		c.Starts, c.Log = starts, r.logger()
		s := New(c, &testContract{recorder: r})
		s.launch = func(_ Attempt[message], files []*os.File, _ func(message) error) (instance, error) {
			return p, files[0].Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		synctest.Wait()
		require.Len(t, starts.places, 1)
		close(p.slow)
		synctest.Wait()
		require.Empty(t, starts.places)
		require.Contains(t, r.logged(), "child of mlx5_0 is slow to start: loading after 5s; it is killed after 1m0s more")
		cancel()
		running.Wait()
	})
}

func TestChildThatShookHandsIsNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit(5*time.Second, func() { t.Error("it was killed") })
		l.start()
		l.stop()
		passTime(time.Hour)
		l.start()
		l.expire() // its timer had already expired
		passTime(time.Hour)
		require.False(t, l.isLate())
		<-l.over
	})
}

// Go forks under a lock. Here the lock delays the fork, as a busy host would.
func TestSlowForkLeavesTheHandshakeItsTime(t *testing.T) {
	const limit = 5 * time.Second
	syscall.ForkLock.RLock()
	unlock := sync.OnceFunc(syscall.ForkLock.RUnlock)
	defer unlock()
	s := startSupervisor(t, "works", func(c *Spec) { c.Timing.Start = limit })
	t.Cleanup(unlock) // before the test waits for the child
	<-time.After(limit + limit/5)
	unlock()
	got := s.awaitState(t, status.StateRunning)
	require.Zero(t, got.Restarts)
	require.NoError(t, unix.Kill(got.PID, unix.SIGKILL))
	require.Equal(t, "child of mlx5_0 died of SIGKILL", s.awaitEnded(t).Message)
}

func TestChildKilledBeforeItsForkDies(t *testing.T) {
	s := newTestClient(t, testClient(t, "works"))
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	s.child.kill()
	s.run(ctx)
	require.Equal(t, unix.SIGKILL, s.Report().Status.Signal())
	require.False(t, s.Report().Shook)
}
