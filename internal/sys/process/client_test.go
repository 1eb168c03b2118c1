package process

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/sys/status"
)

// testClient returns the Spec of a client whose child has the given mode.
func testClient(t *testing.T, mode string) Spec {
	t.Helper()
	s := testSpec()
	s.Exe, s.Env, s.Log = testExe(t), helperEnv(mode, shortDir(t)), slog.New(slog.DiscardHandler)
	s.Timing.Start = patience
	return s
}

func newTestClient(t *testing.T, s Spec) *client[message] {
	t.Helper()
	a, file, err := (&testContract{recorder: newRecorder()}).Begin()
	require.NoError(t, err)
	t.Cleanup(func() { a.Ended(status.End{}) })
	c, err := newClient(&s, shortDir(t), a, file, func(message) error { return nil })
	require.NoError(t, err)
	return c
}

func startTestClient(t *testing.T, s Spec) *client[message] {
	t.Helper()
	c := newTestClient(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.run(ctx)
	return c
}

// The parent-death signal comes when the forking thread ends.
func TestAChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	spec, dir := testClient(t, "works"), shortDir(t)
	a, file, err := (&testContract{recorder: newRecorder()}).Begin()
	require.NoError(t, err)
	defer a.Ended(status.End{})
	started, messages := make(chan *client[message]), make(chan message, 100)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		s, err := startClient(&spec, dir, a, file, func(m message) error {
			select {
			case messages <- m:
			default: // there are enough
			}
			return nil
		})
		if assert.NoError(t, err) {
			<-messages
		}
		started <- s
	}()
	s := <-started
	for range 20 {
		select {
		case <-messages:
		case <-s.Streamed():
			require.FailNow(t, "the child ended")
		}
	}
	s.Ask()
	<-s.Done()
	require.Zero(t, s.Report().Status)
}

// go-plugin forgets its connection when the process ends between the two.
func TestAChildThatDiesBetweenHandshakeAndFirstCallLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := newTestClient(t, testClient(t, "dies after the handshake"))
	_, err := s.plugin.Start()
	require.NoError(t, err)
	require.Eventually(t, s.plugin.Exited, patience, time.Millisecond)
	s.cancel = func() {}
	s.run(t.Context())
	require.ErrorContains(t, s.Report().Err, "rpc error: code = Canceled")
	goleak.VerifyNone(t, before)
}

func TestAChildThatCannotBeExecutedLeavesNothing(t *testing.T) {
	spec := testClient(t, "works")
	exe, err := OpenExe("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, exe.Close())
	spec.Exe = exe
	fds := func() int {
		e, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(e)
	}
	before := fds()
	s := startTestClient(t, spec)
	<-s.Done()
	require.ErrorContains(t, s.Report().Err, "execute /proc/self/exe: no such file or directory")
	require.Equal(t, before, fds(), "the shared memory's file was handed over")
}
