package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

func TestTheStateOfAThreadFollowsItsName(t *testing.T) {
	for text, want := range map[string]byte{
		"12 (rdma-ev-worker) D 1 12 12 0": 'D',
		"12 (a ) D (b) S 1 12 12 0":       'S',
		"12 (a) R":                        'R',
		"12 (a)":                          0,
		"":                                0,
	} {
		require.Equal(t, want, stateOf([]byte(text)), text)
	}
}

func TestAThreadThatRunsOrIsGoneDoesNotWaitInTheKernel(t *testing.T) {
	require.False(t, waitsInKernel(os.Getpid(), unix.Gettid()))
	require.False(t, waitsInKernel(os.Getpid(), 1<<30))
	require.False(t, waitsInKernel(1<<30, 1))
}

// A process that writes to a full pipe sleeps in write(2), as in a command. A process that reads from an empty pipe sleeps in read(2),
// which gives no command.
func TestAThreadThatSleepsInACommandWaitsInTheKernel(t *testing.T) {
	for script, c := range map[string]struct {
		call int
		want bool
	}{
		"exec dd if=/dev/zero bs=64k count=1000": {unix.SYS_WRITE, true},
		"exec cat":                               {unix.SYS_READ, false},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdin, cmd.Stdout = r, w
		require.NoError(t, cmd.Start())
		pid := cmd.Process.Pid
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
			return err == nil && bytes.HasPrefix(text, fmt.Appendf(nil, "%d ", c.call)) && waitsInKernel(pid, pid) == c.want
		}, time.Minute, time.Millisecond, script)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.NoError(t, errors.Join(r.Close(), w.Close()))
	}
}

func TestARunnableProcessRunsOrWaitsForAProcessor(t *testing.T) {
	for script, want := range map[string]bool{"while :; do :; done": true, "exec sleep 1000": false} {
		cmd := exec.Command("sh", "-c", script)
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool {
			return isRunnable(cmd.Process.Pid) == want
		}, time.Minute, time.Millisecond, script)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.False(t, isRunnable(cmd.Process.Pid), "it has ended")
	}
}

func TestOnlyIoctlAndWriteAreCommands(t *testing.T) {
	for text, want := range map[string]bool{
		fmt.Sprintf("%d 0x7 0x1 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", unix.SYS_IOCTL): true,
		fmt.Sprintf("%d 0x7\n", unix.SYS_WRITE):                                   true,
		fmt.Sprintf("%d 0x7\n", unix.SYS_FUTEX):                                   false,
		"running\n":                                                               false,
		"-1 0x7ffd 0x7f00\n":                                                      false,
		"":                                                                        false,
	} {
		require.Equal(t, want, isCommand([]byte(text)), text)
	}
}

// The contract leaves out the call of the thread as long as held is true for it.
func TestTheWatchdogLeavesAChildThatOnlyWaitsInTheKernel(t *testing.T) {
	held := true
	call := Call{Name: "ibv_query_port", Since: 1}
	w := watchdog{alive: neverAlive, limit: 1000, stuck: 10 * time.Second, mono: func() int64 { return int64(time.Hour) }, busy: func() Call {
		if held {
			return Call{}
		}
		return call
	}}
	for range 10 {
		require.Equal(t, causeNone, w.check())
	}
	held = false
	require.Equal(t, causeNone, w.check(), "it has to be the same in two checks")
	require.Equal(t, causeStuck, w.check())
}

// The kernel shows an RDMA object with the name of the thread that created it, which can be any thread of the child.
func TestAllThreadsOfAConfinedChildHaveItsName(t *testing.T) {
	s := startSupervisor(t, "is confined", nil)
	pid := s.awaitState(t, status.StateRunning).PID
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	require.NoError(t, err)
	require.Greater(t, len(tasks), 1)
	for _, path := range tasks {
		name, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "test-child-main\n", string(name))
	}
	links, err := filepath.Glob(filepath.Join(s.dir.Path(), "*", "test-child-main"))
	require.NoError(t, err)
	require.Empty(t, links, "the name is not left behind")
	require.NoError(t, s.stop())
}

// A process that has ended and was not waited for still exists, but has released all its resources.
func TestExitingProcessIsRecognised(t *testing.T) {
	require.False(t, isExiting(os.Getpid()))
	require.False(t, isExiting(1<<30))
	cmd := exec.Command("true")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return isExiting(cmd.Process.Pid) }, time.Minute, time.Millisecond)
	require.NoError(t, cmd.Wait())
}
