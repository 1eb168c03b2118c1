package process

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/status"
)

// patience limits the wait for a condition that is true at once unless something is
// broken.
const patience = 30 * time.Second

// recorder records the calls of a testContract and the log, and lets tests wait for both.
type recorder struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced on every change
	calls    []string      // "started", "message", "ended", "status <state>"
	statuses []status.Status
	ends     []status.End
	counts   []ledger.EventCounts // of the last ledger, when its child had ended
	logLines []string
	messages int
	led      *ledger.Ledger
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) started(l *ledger.Ledger) {
	r.note(func() { r.led, r.calls = l, append(r.calls, "started") })
}

func (r *recorder) message(message) {
	r.note(func() {
		r.messages++
		if n := len(r.calls); r.calls[n-1] != "message" {
			r.calls = append(r.calls, "message")
		}
	})
}

func (r *recorder) ended(e status.End) {
	r.note(func() {
		var s ledger.Contents
		r.led.CopyTo(&s)
		r.counts = s.Events
		r.calls, r.ends = append(r.calls, "ended"), append(r.ends, e)
	})
}

func (r *recorder) setStatus(s status.Status) {
	r.note(func() { r.calls, r.statuses = append(r.calls, "status "+string(s.State)), append(r.statuses, s) })
}

func (r *recorder) Write(p []byte) (int, error) {
	r.note(func() { r.logLines = append(r.logLines, string(p)) })
	return len(p), nil
}

func (r *recorder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// await returns once cond holds; cond is called with the recorder locked.
func (r *recorder) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		ok, changed := cond(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			require.FailNow(t, "waited in vain until "+what, "calls %v\nstatus %+v\nlog %s",
				r.calls, r.statuses, strings.Join(r.logLines, ""))
		}
	}
}

func (r *recorder) awaitState(t *testing.T, want status.State) status.Status {
	t.Helper()
	var got status.Status
	r.await(t, "its state is "+string(want), func() bool {
		if n := len(r.statuses); n > 0 {
			got = r.statuses[n-1]
		}
		return got.State == want
	})
	return got
}

func (r *recorder) awaitEnded(t *testing.T) status.End {
	t.Helper()
	var got status.End
	r.await(t, "the child has ended", func() bool {
		if len(r.ends) > 0 {
			got = r.ends[0]
		}
		return len(r.ends) > 0
	})
	return got
}

func (r *recorder) messageCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages
}

func (r *recorder) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.logLines, "")
}

// supervised runs a Supervisor over real processes.
type supervised struct {
	*recorder
	*Supervisor[message]
	dir  *Dir
	stop func() error // ends Run and returns its error; may be called again
}

func testExe(t *testing.T) *os.File {
	t.Helper()
	exe, err := OpenExe("/proc/self/exe")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, exe.Close()) })
	return exe
}

// shortDir makes a temporary directory whose name is short enough for sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") //nolint:usetesting // the directory of a test contains its name, which is too long
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// helperEnv returns the environment that makes the test program a child of the given
// mode. The race detector sleeps a second at exit by default, which would look like a
// child that does not exit. A test binary built for coverage complains when it has no
// directory for its data.
func helperEnv(mode, coverage string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), modeKey + "=" + mode, "GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + coverage}
}

// quickTiming returns a Timing with almost no delay between restarts. Its limits are long, for slow machines.
func quickTiming() Timing {
	return Timing{
		Beat: 10 * time.Second, Start: 20 * time.Second,
		Grace: 10 * time.Second, Kill: 10 * time.Second, Retry: time.Millisecond,
	}
}

func startSupervisor(t *testing.T, mode string, change func(*Spec)) *supervised {
	t.Helper()
	dir, err := OpenDir(shortDir(t))
	require.NoError(t, err)
	s := &supervised{recorder: newRecorder(), dir: dir}
	c := testSpec()
	c.Exe, c.Dir, c.Timing, c.Log = testExe(t), dir, quickTiming(), s.logger()
	c.Env = helperEnv(mode, shortDir(t))
	if change != nil {
		change(&c)
	}
	s.Supervisor = New(c, &testContract{recorder: s.recorder})
	s.runnable = func(int) bool { return false } // the messages of an idle host, whatever else runs on this one
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		require.NoError(t, s.stop())
		left, err := filepath.Glob(filepath.Join(s.dir.Path(), "*"))
		require.NoError(t, err)
		require.Empty(t, left, "sockets are left")
		require.NoError(t, s.dir.Close())
	})
	return s
}
