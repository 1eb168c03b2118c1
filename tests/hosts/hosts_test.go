package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/standin"
	"rdma_events/tests/child"
	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

// settleLimit is how long a host's points may take to be as expected: workers are started, and methods are tried.
const settleLimit = time.Minute

// library compiles the stand-in library, into the directories with and bare. The first has provider libraries as well.
var library = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hosts")
	if err != nil {
		return "", err
	}
	with, bare := filepath.Join(dir, "with"), filepath.Join(dir, "bare")
	if err := errors.Join(os.Mkdir(with, 0o755), os.Mkdir(bare, 0o755)); err != nil {
		return dir, err
	}
	path, err := standin.Compile("../../internal/conformance/standin/testdata", with)
	if err != nil {
		return dir, err
	}
	for _, provider := range []string{"libmlx5", "libefa", "libbnxt_re"} {
		err = errors.Join(err, standin.WriteFile(filepath.Join(with, "libibverbs", provider+"-rdmav34.so"), ""))
	}
	return dir, errors.Join(err, os.Link(path, filepath.Join(bare, filepath.Base(path))))
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := library(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// A host that stands for a public report is judged as the report shows to be right. What is known to be judged otherwise is
// listed with the host, and the list is exact: who mends a difference removes its line.
func TestEachHostIsJudgedAsItsReportShows(t *testing.T) {
	prerequisite.RequireRoot(t, "only root may put other trees in place of /sys and /dev/infiniband")
	if out, err := exec.Command("unshare", "--mount", "--net", "true").CombinedOutput(); err != nil {
		prerequisite.Missing(t, prerequisite.Root, fmt.Sprintf("a host needs mount and network namespaces of its own: %v: %s", err, out))
	}
	all, err := filepath.Glob("testdata/*/host.toml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 25)
	for _, path := range all {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			judgeHost(t, filepath.Dir(path))
		})
	}
}

func judgeHost(t *testing.T, dir string) {
	t.Helper()
	h, err := readHost(filepath.Join(dir, "host.toml"))
	require.NoError(t, err)
	expected, err := readExpectations(filepath.Join(dir, "expected.txt"), false)
	require.NoError(t, err)
	differences, err := readExpectations(filepath.Join(dir, "differences.txt"), true)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	known := map[string]bool{}
	for _, d := range differences {
		known[d.line] = true
		require.True(t, slices.ContainsFunc(expected, func(e expectation) bool { return e.line == d.line }), "not expected at all: %s", d.line)
	}
	s := runHost(t, h, func(s *seen) bool {
		return !slices.ContainsFunc(expected, func(e expectation) bool {
			return e.subject == "points" && e.verb != "never" && !known[e.line] && !e.holds(s)
		})
	})
	for i := range expected {
		e := &expected[i]
		switch {
		case e.holds(s) == known[e.line] && known[e.line]:
			t.Errorf("mended, so it is no difference any more: %s", e.line)
		case !e.holds(s) && !known[e.line]:
			t.Errorf("not so: %s", e.line)
		}
	}
	if t.Failed() {
		for _, name := range []string{"check", "doctor", "status", "health"} {
			t.Logf("%s ended with %d:\n%s", name, s.exit[name], s.output[name])
		}
		t.Logf("points:\n%s\nlog:\n%s", s.output["points"], s.output["log"])
	}
}

// world is a host that runs.
type world struct {
	t         *testing.T
	dir       string
	libraries string
	out, log  string // files
}

// runHost runs the plugin on a host and plays the events of the host until the points are as expected. It then runs the commands
// while the plugin still runs.
func runHost(t *testing.T, h *host, settled func(*seen) bool) *seen {
	t.Helper()
	libraries, err := library()
	require.NoError(t, err)
	w := &world{t: t, dir: t.TempDir(), libraries: filepath.Join(libraries, map[bool]string{false: "with", true: "bare"}[h.NoProviders])}
	require.NoError(t, h.build(w.dir))
	allow, err := forbidOpening(h.forbidden())
	require.NoError(t, err)
	defer allow()
	config := filepath.Join(w.dir, "run", "rdma_events.conf")
	text := "[[inputs.rdma_events]]\n  state_interval = \"1s\"\n" + h.Config +
		"  [inputs.rdma_events.probe]\n    interval = \"250ms\"\n    timeout = \"200ms\"\n"
	require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
	stop := w.start("-config", "/run/rdma_events.conf", "-poll_interval", "1s")
	defer stop()
	s := &seen{output: map[string]string{}, exit: map[string]int{}}
	for _, e := range h.Events {
		w.await(s, settleLimit, e.after.holds)
		s.since = len(w.points())
		require.NoError(t, deeds[e.Does](h.device(e.Device), filepath.Join(w.dir, "sys")))
	}
	var since time.Time // the points are as they should be
	w.await(s, settleLimit+h.Lasts.Duration, func(s *seen) bool {
		if since.IsZero() && s.span() >= h.Lasts.Duration && settled(s) {
			since = time.Now()
		}
		return !since.IsZero() && w.reportedAfter(since)
	})
	for _, args := range [][]string{{"status"}, {"health"}, {"check", "-config", "/run/rdma_events.conf"}, {"doctor", "-config", "/run/rdma_events.conf"}} {
		name, cmd := args[0], w.command(args...)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("run %s: %v", name, err)
		}
		s.output[name], s.exit[name] = string(out), cmd.ProcessState.ExitCode()
	}
	s.points, s.output["points"], s.output["log"] = w.points(), w.last(), w.logged()
	return s
}

// await waits until the points are as they should be.
func (w *world) await(s *seen, limit time.Duration, settled func(*seen) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		s.points = w.points()
		return settled(s)
	}, limit, 250*time.Millisecond, "the points are not as expected:\n%s\nlog:\n%s", deferred(w.last), deferred(w.logged))
}

// reportedAfter reports whether the plugin has written its status after a time. The status may be older than the points.
func (w *world) reportedAfter(since time.Time) bool {
	reports, err := filepath.Glob(filepath.Join(w.dir, "run/rdma_events-status/*.json"))
	require.NoError(w.t, err)
	return slices.ContainsFunc(reports, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.ModTime().After(since)
	})
}

// deferred is a text that is made when it is printed.
type deferred func() string

func (d deferred) String() string { return d() }

// command returns a command of the program on the host.
func (w *world) command(args ...string) *exec.Cmd {
	w.t.Helper()
	enter, err := filepath.Abs("testdata/enter.sh")
	require.NoError(w.t, err)
	line := append([]string{"--mount", "--net", "sh", enter, w.dir, rig.Program(w.t, "RDMA_EVENTS_BIN", "rdma-events")}, args...)
	cmd := exec.Command("unshare", line...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+w.libraries, "VERBS_STANDIN=/dev/infiniband",
		"RUNTIME_DIRECTORY=/run/rdma_events:/run/rdma_events-status")
	if _, err := os.Stat(filepath.Join(w.dir, stateDir)); err == nil {
		cmd.Env = append(cmd.Env, "STATE_DIRECTORY=/"+stateDir)
	}
	return cmd
}

// start starts the plugin. The function that it returns stops it.
func (w *world) start(args ...string) (stop func()) {
	w.t.Helper()
	for _, d := range []string{"rdma_events", "rdma_events-status"} {
		require.NoError(w.t, os.MkdirAll(filepath.Join(w.dir, "run", d), 0o700))
	}
	w.out, w.log = filepath.Join(w.dir, "out"), filepath.Join(w.dir, "log")
	stdout, err := os.Create(w.out)
	require.NoError(w.t, err)
	stderr, err := os.Create(w.log)
	require.NoError(w.t, err)
	in, prompts, err := os.Pipe()
	require.NoError(w.t, err)
	cmd := w.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
	p, err := child.Start(cmd)
	require.NoError(w.t, err)
	return func() {
		for _, f := range []*os.File{prompts, in, stdout, stderr} {
			_ = f.Close() // the program ends when its standard input does
		}
		require.NoError(w.t, p.Stop(10*time.Second))
	}
}

func (w *world) points() []rig.Point {
	text, err := os.ReadFile(w.out)
	require.NoError(w.t, err)
	points, err := rig.Parse(text[:bytes.LastIndexByte(text, '\n')+1])
	require.NoError(w.t, err)
	return points
}

// last returns the newest line of each series that expectations are about.
func (w *world) last() string {
	newest := map[string]string{}
	for _, p := range w.points() {
		if strings.HasPrefix(p.Measurement, "rdma_device") || strings.HasPrefix(p.Measurement, "rdma_port") || strings.HasPrefix(p.Measurement, "rdma_cq") {
			newest[p.Series()] = fmt.Sprint(p.Series(), " ", p.Fields)
		}
	}
	var lines []string
	for _, line := range newest {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (w *world) logged() string {
	text, err := os.ReadFile(w.log)
	require.NoError(w.t, err)
	return string(text)
}
