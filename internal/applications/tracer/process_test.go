package tracer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
	"rdma_events/tests/prerequisite"
)

// The test program also serves as the tracer. The variable selects the role of the child.
const modeKey = "RDMA_EVENTS_TEST_MODE"

func init() {
	if os.Getenv(modeKey) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv(modeKey) {
	case "":
		goleak.VerifyTestMain(m)
	case "traces":
		os.Exit(Serve(ServeConfig{Prepare: panicPrepare, Open: openInspecting}))
	case "attaches":
		os.Exit(Serve(ServeConfig{Prepare: passPipe, Open: openReadingPipe}))
	case "may not attach":
		os.Exit(Serve(ServeConfig{Prepare: refusePrepare, Open: openInspecting}))
	case "says too much":
		os.Exit(Serve(ServeConfig{Prepare: prepareTooLong, Open: openInspecting}))
	case "attempts":
		os.Exit(Serve(ServeConfig{Prepare: prepareAttempts, Open: makeAttempts}))
	case "attempts with CAP_BPF":
		os.Exit(Serve(ServeConfig{Prepare: leavingAndKeeping, Open: makeAttempts}))
	case "attempts without confinement":
		os.Exit(attemptUnconfined())
	case "hangs":
		os.Exit(Serve(ServeConfig{Open: func(trace.Request, string) (trace.Source, error) { return hanging{}, nil }}))
	case "has another variable":
		os.Setenv(settingsKey, `{"hooks":"all"}`)
		os.Exit(Serve(ServeConfig{Prepare: panicPrepare, Open: openInspecting}))
	}
	panic("an unknown role")
}

// attemptUnconfined makes the attempts in a process with all privileges of the test.
func attemptUnconfined() int {
	p, err := prepareAttempts(Settings{})
	if err == nil {
		_, err = makeAttempts(trace.Request{}, p.Text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// panicPrepare is the Prepare of a tracer that must not attach to anything.
func panicPrepare(Settings) (Prepared, error) { panic("prepared without need") }

// passPipe passes a pipe to the second execution and writes the process ID into it.
func passPipe(s Settings) (Prepared, error) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return Prepared{}, err
	}
	if _, err := unix.Write(p[1], fmt.Append(nil, os.Getpid())); err != nil {
		return Prepared{}, err
	}
	return Prepared{Text: s.Hooks + "\n" + strconv.Itoa(p[0])}, unix.Close(p[1])
}

// openReadingPipe opens a source that reads the pipe of passPipe and reports the result as missing functions.
func openReadingPipe(_ trace.Request, prepared string) (trace.Source, error) {
	_, number, _ := strings.Cut(prepared, "\n")
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(os.NewFile(uintptr(fd), "pipe"))
	s := newScripted()
	s.attached.Missing = []string{prepared[:len(prepared)-len(number)], strconv.FormatBool(string(text) == strconv.Itoa(os.Getpid()))}
	return s, err
}

func refusePrepare(Settings) (Prepared, error) {
	return Prepared{}, fmt.Errorf("%w: CAP_BPF;\n\"%s\"", trace.ErrPermission, strings.Repeat("x", 200<<10))
}

func prepareTooLong(Settings) (Prepared, error) {
	return Prepared{Text: strings.Repeat("x", maxForward+1)}, nil
}

// openInspecting opens a source that inspects its process and reports the result as missing functions.
func openInspecting(r trace.Request, _ string) (trace.Source, error) {
	s := newScripted(&trace.Update{Mono: 1})
	s.last = []*trace.Update{{Mono: 2}}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		s.attached.Missing = append(s.attached.Missing, "variable "+name)
	}
	for _, path := range []string{r.Sim.Scenario, filepath.Dir(r.Sim.Scenario) + "/other.toml"} {
		f, err := os.Open(path)
		if err == nil {
			err = f.Close()
		}
		s.attached.Missing = append(s.attached.Missing, fmt.Sprint(filepath.Base(path), " ", err == nil))
	}
	return s, nil
}

// hanging is a source that neither returns data nor ends.
type hanging struct{}

func (hanging) Attached() trace.Attached                    { return trace.Attached{Hooks: "test"} }
func (hanging) Next(context.Context) (*trace.Update, error) { select {} }
func (hanging) Close() error                                { return nil }

// reports records the calls of a real Supervisor.
type reports struct {
	recordingHandler
	attached trace.Attached
	running  status.Status
	end      status.End
	enough   func(call string)
}

func (r *reports) Attached(a trace.Attached, s status.Status) {
	r.attached, r.running = a, s
	r.recordingHandler.Attached(a, s)
	r.enough("attached")
}

func (r *reports) Update(s *trace.Update) {
	r.recordingHandler.Update(s)
	r.enough("snapshot")
}

func (r *reports) Ended(e status.End) {
	r.end = e
	r.recordingHandler.Ended(e)
	r.enough("ended")
}

// superviseUntil runs the test program as a tracer until a given call of the Handler, at which it calls then. It returns the recorded
// calls.
func superviseUntil(t *testing.T, mode, until string, c Config, then ...func(*reports)) *reports {
	t.Helper()
	own, err := os.Executable()
	require.NoError(t, err)
	exe, err := process.OpenExe(own)
	require.NoError(t, err)
	defer exe.Close()
	dir, err := process.OpenDir("")
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &reports{}
	r.enough = func(call string) {
		if call != until {
			return
		}
		for _, f := range then {
			f(r)
		}
		cancel()
	}
	c.Exe, c.Dir, c.Env = exe, dir, append(c.Env, modeKey+"="+mode)
	require.NoError(t, New(c, r).Run(ctx))
	return r
}

func TestARealTracerKeepsTheScenariosFileAndNothingElse(t *testing.T) {
	t.Setenv("TELEGRAF_SECRET", "hush")
	files := t.TempDir()
	scenario := filepath.Join(files, "scenario.toml")
	for _, path := range []string{scenario, filepath.Join(files, "other.toml")} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	c := Config{Settings: Settings{Reads: []string{scenario}}}
	c.Request.Backend, c.Request.Sim.Scenario = "sim", scenario
	r := superviseUntil(t, "traces", "snapshot", c)
	require.Equal(t, []string{
		"status starting", "attached by test, running", "snapshot 1", "snapshot 2", "ended ok", "status stopped",
	}, r.calls)
	require.Positive(t, r.running.PID)

	var variables, opened []string
	for _, fact := range r.attached.Missing {
		if name, ok := strings.CutPrefix(fact, "variable "); ok {
			variables = append(variables, name)
		} else {
			opened = append(opened, fact)
		}
	}
	require.NotContains(t, variables, settingsKey)
	require.NotContains(t, variables, forwardKey)
	require.False(t, slices.ContainsFunc(variables, func(name string) bool {
		return !strings.HasPrefix(name, "PLUGIN_") && !strings.HasPrefix(name, "RDMA_EVENTS_")
	}), "%q", variables)
	if confine.Landlock() == 0 {
		prerequisite.Missing(t, prerequisite.Landlock, "no Landlock: files that are not listed can be opened")
	}
	require.Equal(t, []string{"scenario.toml true", "other.toml false"}, opened)
}

func TestARealTracerRefusesOtherSettings(t *testing.T) {
	r := superviseUntil(t, "has another variable", "ended", Config{Settings: Settings{Hooks: HooksKprobe}})
	require.Equal(t, status.ReasonCrashed, r.end.Reason)
	require.Contains(t, r.end.Message, `parse RDMA_EVENTS_TRACE: hooks = \"all\" is not allowed`)
	require.Equal(t, "ended crashed", r.calls[1], "it never attached")
}

func TestARealTracerPreparesInItsFirstStartForItsSecond(t *testing.T) {
	r := superviseUntil(t, "attaches", "attached", Config{Settings: Settings{Hooks: HooksKprobe}})
	require.Equal(t, []string{"kprobe ", "true"}, r.attached.Missing, "the text, and the number of the process in the pipe")
}

func TestARealTracerThatMayNotAttachSaysSoAfterTheHandshake(t *testing.T) {
	r := superviseUntil(t, "may not attach", "ended", Config{Settings: Settings{Hooks: HooksKprobe}})
	require.Equal(t, []string{"status starting", "ended no_permission", "status stopped"}, r.calls)
	want := `tracer: the privilege is missing: CAP_BPF; "` + strings.Repeat("x", maxReason)
	require.Equal(t, want[:maxReason], r.end.Message)
}

func TestARealTracerCannotLeaveWhatIsTooLong(t *testing.T) {
	r := superviseUntil(t, "says too much", "ended", Config{Settings: Settings{Hooks: HooksKprobe}})
	require.Equal(t, status.ReasonCrashed, r.end.Reason)
	require.Contains(t, r.end.Message, "prepare this process: 65537 bytes are too long for the second start")
}

func TestARealTracerThatSendsNothingIsReplaced(t *testing.T) {
	r := superviseUntil(t, "hangs", "ended", Config{Timing: process.Timing{Beat: 200 * time.Millisecond}})
	require.Equal(t, status.End{Reason: status.ReasonStuck, Message: "tracer stopped responding and was killed"}, r.end)
	require.Equal(t, []string{"status starting", "attached by test, running", "ended stuck", "status stopped"}, r.calls)
	require.ErrorIs(t, unix.Kill(r.running.PID, 0), unix.ESRCH)
}

func TestARealTracerThatDoesNotEndIsKilled(t *testing.T) {
	r := superviseUntil(t, "hangs", "attached", Config{Timing: process.Timing{Grace: 50 * time.Millisecond}})
	require.Equal(t, []string{"status starting", "attached by test, running", "ended ok", "status stopped"}, r.calls)
	require.ErrorIs(t, unix.Kill(r.running.PID, 0), unix.ESRCH)
}
