package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/status"
)

const preparedKey = "RDMA_EVENTS_TEST_PREPARED"

// servePreparing is a child that prints each step before the handshake. With fails, it fails in Prepare.
func servePreparing(fails bool) int {
	says := func(what string) { fmt.Fprintln(os.Stderr, what, os.Getenv(preparedKey)) }
	c := serveConfig()
	c.Shared = 0
	c.Prepare = func() error {
		says("prepares")
		if fails {
			return errors.New("no luck today")
		}
		return os.Setenv(preparedKey, "prepared")
	}
	c.Needs = func() (confine.Needs, error) { says("needs"); return confine.Needs{}, nil }
	c.Make = func(Inherited) (func(grpc.ServiceRegistrar), error) {
		says("makes")
		sleepForEver()
		return nil, nil
	}
	return Serve(c)
}

// preparesUntil is a child that reports a step of its start, and serves after ready has returned.
func preparesUntil(ready func()) int {
	c := serveConfig()
	c.Prepare = func() error {
		ReportProgress("loading programs")
		ready()
		return nil
	}
	c.Needs = func() (confine.Needs, error) { return confine.Needs{}, nil }
	c.Make = (&fault{mode: "works"}).serve
	return Serve(c)
}

// readyNote waits until the test opens the note, which is a pipe, for writing.
func readyNote() {
	_, err := os.ReadFile(os.Getenv(noteKey))
	must(err)
}

// An overloaded host delays the start of every child. A restart of the child would not help.
func TestSlowStartIsReportedAndCompleted(t *testing.T) {
	note := shortDir(t) + "/ready"
	require.NoError(t, unix.Mkfifo(note, 0o600))
	s := startSupervisor(t, "prepares slowly", func(c *Spec) {
		c.Env = append(c.Env, noteKey+"="+note)
		c.Timing.Start = time.Second
	})
	s.await(t, "it is slow", func() bool { return strings.Contains(strings.Join(s.logLines, ""), "is slow to start") })
	require.Contains(t, s.logged(), "child of mlx5_0 is slow to start: loading programs after 1s; it is killed after 1m0s more")
	require.NoError(t, os.WriteFile(note, nil, 0o600))
	got := s.awaitState(t, status.StateRunning)
	require.Zero(t, got.Restarts)
	require.Equal(t, status.Status{
		State: status.StateStarting, Reason: status.ReasonOK, Message: "slow to start: loading programs",
	}, s.statuses[1])
	require.NoError(t, s.stop())
}

// runUnsupervised runs a child without a Supervisor, and returns the lines of its stderr and its exit status. With alive, the
// lifeline is open until the child makes its service, and otherwise it is closed from the start.
func runUnsupervised(t *testing.T, mode string, alive bool) (lines []string, code int) {
	t.Helper()
	line, end, err := os.Pipe()
	require.NoError(t, err)
	defer line.Close()
	defer end.Close()
	if !alive {
		require.NoError(t, end.Close())
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(helperEnv(mode, t.TempDir()), testHandshake().Key+"="+testHandshake().Value)
	cmd.ExtraFiles = []*os.File{line}
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for in := bufio.NewScanner(stderr); in.Scan(); {
		lines = append(lines, in.Text())
		if in.Text() == "makes prepared" {
			require.NoError(t, end.Close())
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	return lines, exit.ExitCode()
}

func TestAChildPreparesOnceBeforeItIsConfined(t *testing.T) {
	lines, code := runUnsupervised(t, "prepares", true)
	require.Equal(t, []string{"prepares ", "needs prepared", "needs prepared", "makes prepared"}, lines)
	require.Equal(t, exitOrphan, code)
}

func TestAChildThatCannotPrepareEnds(t *testing.T) {
	lines, code := runUnsupervised(t, "cannot prepare", true)
	require.Equal(t, []string{"prepares ", "prepare this process: no luck today"}, lines)
	require.Equal(t, exitSetup, code)
}

func TestAChildWhoseHostIsGoneDoesNotPrepare(t *testing.T) {
	lines, code := runUnsupervised(t, "prepares", false)
	require.Empty(t, lines)
	require.Equal(t, exitOrphan, code)
}
