package process

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/status"
	"rdma_events/tests/prerequisite"
)

func TestAChildRunsUntilItIsAskedToStop(t *testing.T) {
	s := startSupervisor(t, "works", nil)
	got := s.awaitState(t, status.StateRunning)
	require.Equal(t, status.ReasonOK, got.Reason)
	require.NotZero(t, got.PID)
	require.NoError(t, s.stop())
	require.Equal(t, []string{
		"status starting", "started", "message", "status running", "message", "ended", "status stopped",
	}, s.callsOf())
	require.Equal(t, []status.End{{Reason: status.ReasonOK}}, s.ends)
	require.Empty(t, s.logged())
	require.ErrorIs(t, unix.Kill(got.PID, 0), unix.ESRCH)
}

// callsOf returns the calls so far. After each state running it adds a message if none has come yet, so that the result does not
// depend on time.
func (s *supervised) callsOf() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for i, c := range s.calls {
		out = append(out, c)
		if c == "status running" && s.calls[i+1] != "message" {
			out = append(out, "message")
		}
	}
	return out
}

func TestAKilledChildIsReplaced(t *testing.T) {
	s := startSupervisor(t, "works", func(c *Spec) { c.Timing = Timing{} })
	first := s.awaitState(t, status.StateRunning)
	killed := time.Now()
	require.NoError(t, unix.Kill(first.PID, unix.SIGKILL))
	s.await(t, "another one runs", func() bool {
		n := s.statuses[len(s.statuses)-1]
		return n.State == status.StateRunning && n.PID != first.PID && n.Restarts == 1
	})
	t.Logf("replaced after %v, promised within 2 s", time.Since(killed))
	require.Less(t, time.Since(killed), 20*time.Second, "ten times what is promised")
	require.Regexp(t, `child of mlx5_0 died of SIGKILL; restarting in (2|3)\d\dms`, s.logged())
}

func TestTheLastCountsOfADeadChildAreThere(t *testing.T) {
	s := startSupervisor(t, "is killed", nil)
	got := s.awaitEnded(t)
	require.Equal(t, status.End{Reason: status.ReasonCrashed, Message: "child of mlx5_0 died of SIGKILL"}, got)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, []ledger.EventCounts{{Type: 10, Port: 1, Read: 3, Acked: 2}}, s.counts)
}

func TestChildsEndIsReportedInOneLine(t *testing.T) {
	soon := func(c *Spec) { c.Timing.Start = 2 * time.Second }
	slow := func(c *Spec) { c.Timing.Start, c.Timing.Load = 2*time.Second, 2*time.Second }
	impatient := func(c *Spec) { c.Timing.Start, c.Timing.Beat = 5*time.Second, 2*time.Second }
	wary := func(c *Spec) {
		impatient(c)
		c.Timing.Stuck = 100 * time.Millisecond
	}
	for mode, row := range map[string]struct {
		reason status.Reason
		want   string // after "child of mlx5_0 "
		change func(*Spec)
	}{
		"is killed early":          {status.ReasonCrashed, "died of SIGKILL before the handshake", nil},
		"crashes early":            {status.ReasonCrashed, "died of SIGSEGV before the handshake", nil},
		"dies after the handshake": {status.ReasonCrashed, "ended with status 9", nil},
		"crashes in a call":        {status.ReasonCrashed, "died of SIGSEGV in ibv_get_async_event", nil},
		"panics":                   {status.ReasonCrashed, "died of a panic: index of nothing", nil},
		"cannot close":             {status.ReasonStuck, "could not close the device: stuck in ibv_destroy_qp", nil},
		"does not beat":            {status.ReasonStuck, "stopped responding in ibv_query_port and was killed", impatient},
		"is stuck in a call":       {status.ReasonStuck, "was stuck in ibv_destroy_cq and was killed", wary},
		"stops":                    {status.ReasonStuck, "stopped responding and was killed", wary},
		"hangs early": {
			status.ReasonStuck,
			`(/proc/self/exe) did not complete the handshake in time and was killed: "thinking"; ` +
				"see whether the host is overloaded, and check child_path", soon,
		},
		"stops before the handshake": {
			status.ReasonStuck, "was slow to start and was killed after 4s: starting; see whether the host is overloaded", slow,
		},
		"hangs while it prepares": {
			status.ReasonStuck, "was slow to start and was killed after 4s: loading programs; see whether the host is overloaded", slow,
		},
		"is mute after the handshake": {
			status.ReasonStuck, `(/proc/self/exe) did not complete the handshake in time and was killed; see whether the host is overloaded, and check child_path`, soon,
		},
		"exits early": {
			status.ReasonCrashed,
			"cannot be started: /proc/self/exe is not an test-child of this release: " +
				`it ended with status 7 before the handshake: "no luck today"; check child_path`, nil,
		},
		"exits with a status of ours": {
			status.ReasonCrashed,
			"cannot be started: /proc/self/exe is not an test-child of this release: " +
				`it ended with status 4 before the handshake; check child_path`, nil,
		},
		"is another program": {
			status.ReasonCrashed,
			`cannot be started: /proc/self/exe is not an test-child: it printed "usage: something else"; check child_path`, nil,
		},
		"has another cookie": {
			status.ReasonCrashed,
			"cannot be started: /proc/self/exe is not an test-child of this release: " +
				`it ended with status 2 before the handshake: "it is not to be started by hand"; check child_path`, nil,
		},
		"is of another release": {
			status.ReasonCrashed,
			"cannot be started: /proc/self/exe is from another release (contract 2 instead of 1): install rdma-events and test-child of the same release", nil,
		},
		"has no shared memory": {
			status.ReasonCrashed, `(/proc/self/exe) could not set itself up: "open ledger: stat shared file: bad file descriptor"`, nil,
		},
	} {
		t.Run(mode, func(t *testing.T) {
			s := startSupervisor(t, mode, row.change)
			want := status.End{Reason: row.reason, Message: "child of mlx5_0 " + row.want}
			require.Equal(t, want, s.awaitEnded(t))
			s.await(t, "it is logged", func() bool {
				return strings.Contains(strings.Join(s.logLines, ""), "reason="+string(row.reason))
			})
			if strings.Contains(row.want, "cannot be started") {
				require.NotContains(t, s.logged(), "test-child output", "one line says it all")
			}
		})
	}
}

func TestChildsFinalMessageIsPassedOn(t *testing.T) {
	for mode, want := range map[string]status.End{
		"ends with removed":        {Reason: status.ReasonRemoved, Message: "mlx5_0: removed"},
		"ends with no_permission":  {Reason: status.ReasonNoPermission, Message: "mlx5_0: no_permission"},
		"ends with recovering":     {Reason: status.ReasonRecovering, Message: "mlx5_0: recovering"},
		"ends with excluded_netns": {Reason: status.ReasonExcludedNetns, Message: "mlx5_0: excluded_netns"},
	} {
		t.Run(mode, func(t *testing.T) {
			require.Equal(t, want, startSupervisor(t, mode, nil).awaitEnded(t))
		})
	}
}

func TestNothingIsLeftOfAProgramThatPrintsForEver(t *testing.T) {
	s := startSupervisor(t, "prints for ever", nil)
	require.Contains(t, s.awaitEnded(t).Message, "is not an test-child")
}

func TestAFileThatCannotRunIsSaidInOneLine(t *testing.T) {
	path := shortDir(t) + "/child"
	require.NoError(t, os.WriteFile(path, []byte("\x7fELF not"), 0o755))
	exe, err := OpenExe(path)
	require.NoError(t, err)
	defer exe.Close()
	s := startSupervisor(t, "works", func(c *Spec) { c.Exe = exe })
	require.Equal(t, "child of mlx5_0 cannot be started: execute "+path+": exec format error; check child_path",
		s.awaitEnded(t).Message)
	require.Equal(t, status.StateBackingOff, s.awaitState(t, status.StateBackingOff).State)
}

func TestEveryStartRunsTheFileThatWasOpened(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := shortDir(t) + "/child"
	require.NoError(t, os.WriteFile(path, own, 0o755))
	exe, err := OpenExe(path)
	require.NoError(t, err)
	defer exe.Close()
	require.NoError(t, os.WriteFile(path+".new", []byte("another version"), 0o755))
	require.NoError(t, os.Rename(path+".new", path))
	s := startSupervisor(t, "works", func(c *Spec) { c.Exe = exe })
	first := s.awaitState(t, status.StateRunning)
	require.NoError(t, unix.Kill(first.PID, unix.SIGKILL))
	s.await(t, "another one runs", func() bool {
		n := s.statuses[len(s.statuses)-1]
		return n.State == status.StateRunning && n.PID != first.PID
	})
}

func TestLibraryOutputDisturbsNothing(t *testing.T) {
	for _, mode := range []string{"prints", "prints by Go"} {
		t.Run(mode, func(t *testing.T) {
			s := startSupervisor(t, mode, nil)
			s.awaitState(t, status.StateRunning)
			s.await(t, "what it prints is logged", func() bool {
				all := strings.Join(s.logLines, "")
				return strings.Contains(all, "xxx...") && strings.Contains(all, "vendor banner v1.2 after") || strings.Contains(all, "yyy...")
			})
			for line := range strings.Lines(s.logged()) {
				require.Less(t, len(line), 2*stderrLine)
			}
		})
	}
}

func TestAFloodOnStderrIsCutOffAndHoldsNothingUp(t *testing.T) {
	s := startSupervisor(t, "prints a lot", nil)
	s.awaitState(t, status.StateRunning)
	s.await(t, "it beats after the flood", func() bool { return s.calls[len(s.calls)-1] == "message" })
	require.NoError(t, s.stop())
	require.Less(t, strings.Count(s.logged(), "test-child output"), 3*stderrBurst)
}

func TestAProcessThatAChildStartedDiesWithIt(t *testing.T) {
	note := shortDir(t) + "/pid"
	s := startSupervisor(t, "has a child and is killed", func(c *Spec) { c.Env = append(c.Env, noteKey+"="+note) })
	require.Equal(t, "child of mlx5_0 died of SIGKILL", s.awaitEnded(t).Message)
	require.NoError(t, s.stop())
	awaitGone(t, numberIn(t, note))
}

func TestAProcessThatLeftTheChildsGroupHoldsNothingUp(t *testing.T) {
	note := shortDir(t) + "/pid"
	s := startSupervisor(t, "has an escaped child and is killed", func(c *Spec) {
		c.Env = append(c.Env, noteKey+"="+note)
		c.Timing.Slow, c.Timing.Retry, c.Timing.RetryMax = time.Hour, time.Hour, time.Hour
	})
	t.Cleanup(func() { require.NoError(t, unix.Kill(numberIn(t, note), unix.SIGKILL)) })
	require.Equal(t, "child of mlx5_0 died of SIGKILL", s.awaitEnded(t).Message)
	require.NoError(t, s.stop())
}

func numberIn(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	n, err := strconv.Atoi(string(raw))
	require.NoError(t, err)
	return n
}

// awaitGone waits until a process has ended. It need not be a child of this process.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	require.NoError(t, err)
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience/time.Millisecond))
	require.NoError(t, err)
	require.Equal(t, 1, n, "process %d is still there", pid)
}

func TestAChildThatDoesNotCloseIsKilledAfterTheGrace(t *testing.T) {
	s := startSupervisor(t, "does not close", func(c *Spec) { c.Timing.Grace = 50 * time.Millisecond })
	got := s.awaitState(t, status.StateRunning)
	begin := time.Now()
	require.NoError(t, s.stop())
	t.Logf("killed after %v", time.Since(begin))
	require.ErrorIs(t, unix.Kill(got.PID, 0), unix.ESRCH)
	require.Contains(t, s.logged(), "child of mlx5_0 did not close its device within 50ms in ibv_close_device and is killed")
}

func TestAChildThatIsStartingIsNotWaitedFor(t *testing.T) {
	note := shortDir(t) + "/note"
	s := startSupervisor(t, "hangs early", func(c *Spec) {
		c.Env = append(c.Env, noteKey+"="+note)
		c.Timing.Grace, c.Timing.Start = time.Hour, time.Hour
	})
	require.Eventually(t, func() bool {
		_, err := os.Stat(note)
		return err == nil
	}, patience, time.Millisecond)
	require.NoError(t, s.stop())
}

// systemd signals every process of a unit when it stops the unit.
func TestAChildLeavesSignalsToItsHost(t *testing.T) {
	s := startSupervisor(t, "works", nil)
	pid := s.awaitState(t, status.StateRunning).PID
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT} {
		require.NoError(t, unix.Kill(pid, sig))
	}
	seen := s.messageCount()
	s.await(t, "it beats on", func() bool { return s.messages > seen+3 })
	require.NoError(t, s.stop())
	require.Equal(t, []status.End{{Reason: status.ReasonOK}}, s.ends)
}

func TestGoPluginMessagesAreLoggedWithoutStderr(t *testing.T) {
	r := newRecorder()
	s := startSupervisor(t, "prints a lot", func(c *Spec) {
		c.Log = slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s.awaitState(t, status.StateRunning)
	r.await(t, "the flood is there", func() bool { return strings.Contains(strings.Join(r.logLines, ""), "line=\"event 0\"") })
	require.NoError(t, s.stop())
	require.Contains(t, r.logged(), "go-plugin: waiting for RPC address")
	require.NotContains(t, r.logged(), "go-plugin: event")
}

// If the error pipe of the fork has a lower descriptor than the child's files, Go moves the pipe to the descriptor above them.
// In the host, any other file may have that descriptor.
func TestAChildIsExecutedWhateverDescriptorsItsHostHas(t *testing.T) {
	exe := testExe(t)
	var low []*os.File
	for len(low) == 0 || low[len(low)-1].Fd() < 100 {
		f, err := os.Open("/dev/null")
		require.NoError(t, err)
		low = append(low, f)
	}
	led, high, err := ledger.New("test")
	require.NoError(t, err)
	defer led.Close()
	closeAll(low[:20]) // numbers for pipes below the ledger's
	c, err := newChild(&Spec{Exe: exe}, []*os.File{high})
	require.NoError(t, err)
	defer c.close()
	c.cmd.Env = helperEnv("exits early", shortDir(t))
	require.NoError(t, c.Start(t.Context()))
	<-c.exited
	closeAll(low[20:])
	_, ended := c.state()
	require.Equal(t, 7, ended.ExitCode())
}

func TestAChildInheritsOnlyWhatItNeeds(t *testing.T) {
	t.Setenv("TELEGRAF_SECRET", "hush")
	s := startSupervisor(t, "reports itself", nil)
	got := s.awaitEnded(t).Message
	for _, want := range []string{
		"env " + modeKey + "=reports itself",
		"fd 0 /dev/null", "cwd /\n", "args [test-child mlx5_0]", "comm test-child-main", "leader true",
	} {
		require.Contains(t, got, want)
	}
	require.NotContains(t, got, "hush")
	require.NotContains(t, got, "/memfd", "that of the shared memory is not needed once it is mapped")
	require.NotContains(t, got, "process.test", "nor that of its program")
}

func TestAStrangerCannotConnectToAChild(t *testing.T) {
	prerequisite.RequireRoot(t, "not root: only root can become another user")
	base := shortDir(t)
	require.NoError(t, os.Chmod(base, 0o755))
	dir, err := OpenDir(base)
	require.NoError(t, err)
	defer dir.Close()
	s := startSupervisor(t, "works", func(c *Spec) { c.Dir = dir })
	s.awaitState(t, status.StateRunning)
	sockets, err := filepath.Glob(dir.Path() + "/plugin-dir*/plugin*")
	require.NoError(t, err)
	require.Len(t, sockets, 1)
	for user, want := range map[uint32]string{0: "<nil>", 65534: "permission denied"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), hostKey+"=dials", noteKey+"="+sockets[0], "GORACE=atexit_sleep_ms=0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), want, "user %d", user)
	}
	require.NoError(t, s.stop())
}

func TestManyDeathsLeakNothing(t *testing.T) {
	fds := func() int {
		e, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(e)
	}
	for _, mode := range []string{"dies after the handshake", "is killed", "exits early"} {
		s := startSupervisor(t, mode, func(c *Spec) {
			c.Timing.RetryMax, c.Timing.Slow = time.Millisecond, time.Millisecond
		})
		s.awaitEnded(t)
		before := fds()
		s.await(t, "it died ten times", func() bool { return len(s.ends) >= 10 })
		require.NoError(t, s.stop())
		require.LessOrEqual(t, fds(), before)
	}
}
