package worker

import (
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// testSession is what makes a session with a worker of the given mode.
func testSession(t *testing.T, mode string) sessionConfig {
	t.Helper()
	led, file, err := ledger.New("test")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	return sessionConfig{
		exe: testExe(t), ledger: file, dir: shortDir(t), env: helperEnv(mode, shortDir(t)),
		limit: patience, log: slog.New(slog.DiscardHandler),
	}
}

// The parent-death signal comes when the forking thread ends.
func TestAWorkerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	c := testSession(t, "works")
	started := make(chan *session)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		s, err := startSession(c)
		if assert.NoError(t, err) {
			<-s.Batches()
		}
		started <- s
	}()
	s := <-started
	for range 20 {
		_, alive := <-s.Batches()
		require.True(t, alive)
	}
	s.Ask()
	<-s.Done()
	require.Zero(t, s.Report().Status)
}

// go-plugin forgets its connection when the process has gone in between.
func TestAWorkerThatDiesBetweenHandshakeAndFirstCallLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := newSession(testSession(t, "dies after the handshake"))
	require.NoError(t, err)
	_, err = s.client.Start()
	require.NoError(t, err)
	require.Eventually(t, s.client.Exited, patience, time.Millisecond)
	s.cancel = func() {}
	s.live(t.Context(), verbs.Request{})
	require.ErrorContains(t, s.Report().Err, "rpc error: code = Canceled")
	goleak.VerifyNone(t, before)
}

func TestAWorkerThatCannotBeExecutedLeavesNothing(t *testing.T) {
	c := testSession(t, "works")
	exe, err := OpenExe("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, exe.Close())
	c.exe = exe
	fds := func() int {
		e, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(e)
	}
	before := fds()
	s, err := startSession(c)
	require.NoError(t, err)
	<-s.Done()
	require.ErrorContains(t, s.Report().Err, "execute /proc/self/exe: no such file or directory")
	require.Equal(t, before-1, fds(), "the ledger's file was handed over")
}
