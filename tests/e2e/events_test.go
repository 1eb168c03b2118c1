package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// everySecond drops a link once a second for 40 ms.
const everySecond = `[[link]]
at = "1s"
every = "1s"
device = "sim0"
down_for = "40ms"
`

// recording is a plugin that records.
type recording struct {
	*exec.Cmd
	stdin  io.Closer
	stderr lockedText
}

// lockedText is the log of a process that still writes it.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (r *recording) awaitLog(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.stderr.String(), text) }, time.Minute, 20*time.Millisecond)
}

// startRecording starts the plugin with a recorder's directory from systemd.
func startRecording(t *testing.T, dir, scenario string) *recording {
	t.Helper()
	return startRecordingOf(t, dir, simConfig(writeScenario(t, scenario)))
}

// startRecordingOf is startRecording with a configuration.
func startRecordingOf(t *testing.T, dir, config string) *recording {
	t.Helper()
	r := &recording{}
	conf := writeFile(t, "rdma_events.conf", config, 0o644)
	r.Cmd = exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", conf, "-poll_interval", "200ms")
	r.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t), "STATE_DIRECTORY=/nonexistent/telegraf:"+dir)
	r.Stderr = &r.stderr
	var err error
	r.stdin, err = r.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, r.Start())
	return r
}

// stop ends the plugin as Telegraf does.
func (r *recording) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, r.stdin.Close())
	require.NoError(t, r.Wait())
}

// kept is what the tests read of a record.
type kept struct {
	Sequence uint64
	Kind     string
	Device   string
	Event    string
	Count    uint64
	Witness  string
	StateTo  string `json:"state_to"`
	Start    *struct{ Clean bool }
	Peer     *rig.Peer
}

// readRecords returns the records of a directory, and requires that each fits the schema.
func readRecords(t *testing.T, dir string, args ...string) (all []kept) {
	t.Helper()
	text, code := runCommand(t, slices.Concat([]string{"events", "-json", "-directory", dir}, args)...)
	require.Contains(t, []int{0, 1}, code) // 1: the record that is being written just now
	for line := range strings.Lines(text) {
		schema.Require(t, "events", line)
		var k kept
		require.NoError(t, json.Unmarshal([]byte(line), &k))
		all = append(all, k)
	}
	return all
}

func countRecords(all []kept, is func(*kept) bool) (n int) {
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return n
}

func isDrop(k *kept) bool { return k.Event == "port_err" && k.StateTo == "down" }

func TestEventsAreRecordedAcrossAKillAndReadAnywhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "rdma_events")
	line, code := runCommand(t, "events", "-directory", dir)
	require.Empty(t, line)
	require.Equal(t, 2, code, "nothing was recorded yet")

	first := startRecording(t, dir, everySecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return err == nil && countRecords(readRecords(t, dir), isDrop) >= 3
	}, time.Minute, 200*time.Millisecond)
	require.NoError(t, first.Process.Signal(syscall.SIGKILL))
	require.Error(t, first.Wait())
	before := readRecords(t, dir)
	require.GreaterOrEqual(t, countRecords(before, isDrop), 3)
	require.Equal(t, 1, countRecords(before, func(k *kept) bool { return k.Kind == "plugin" }))
	require.Zero(t, countRecords(before, func(k *kept) bool { return k.Kind == "end" }))

	second := startRecording(t, dir, everySecond)
	require.Eventually(t, func() bool { return countRecords(readRecords(t, dir), isDrop) >= countRecords(before, isDrop)+3 }, time.Minute, 200*time.Millisecond)
	second.stop(t)
	third := startRecording(t, dir, "")
	require.Eventually(t, func() bool {
		return countRecords(readRecords(t, dir), func(k *kept) bool { return k.Start != nil }) == 3
	},
		time.Minute, 200*time.Millisecond)
	third.stop(t)

	// Another host has a copy of the directory, of which nothing else is left.
	elsewhere := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(elsewhere, os.DirFS(dir)))
	require.NoError(t, os.RemoveAll(dir))
	all := readRecords(t, elsewhere)
	var clean []bool
	next := uint64(1)
	for _, k := range all {
		require.Equal(t, next, k.Sequence, "no record is missing")
		next++
		if k.Event != "" && k.Witness != "" {
			next++ // the change of state that it caused is a record of its own
		}
		if k.Start != nil {
			clean = append(clean, k.Start.Clean)
		}
	}
	require.Equal(t, []bool{false, false, true}, clean)
	require.Equal(t, before, all[:len(before)], "what was written stays")

	require.Equal(t, len(all), len(readRecords(t, elsewhere, "-since", "1h")))
	for _, k := range readRecords(t, elsewhere, "-device", "sim1") {
		require.NotEqual(t, "sim0", k.Device)
	}
	text, code := runCommand(t, "events", "-directory", elsewhere)
	require.Zero(t, code)
	require.Regexp(t, `(?m)^\d{4}-\d\d-\d\d$`, text)
	require.Regexp(t, `(?m)^\d\d:\d\d:\d\d\.\d{6}  sim0:1      port_err             active > down`, text)
	require.Contains(t, text, "(recording resumes)  without a clean end (killed, or the power failed); last record at ")
	require.Contains(t, text, "(recording resumes)  after a clean end at ")
}

// following reads what a plugin records, while it does.
type following struct {
	t      *testing.T
	dir    string
	plugin *recording
	cmd    *exec.Cmd
	out    io.Reader
	lines  *json.Decoder
}

// startFollowing starts a plugin that records a scenario, and `events -follow`, which reads the records.
func startFollowing(t *testing.T, scenario string) *following {
	t.Helper()
	f := &following{t: t, dir: filepath.Join(shortDir(t), "rdma_events")}
	f.plugin = startRecording(t, f.dir, scenario)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(f.dir, "0000000001.seg"))
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	f.cmd = exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "events", "-follow", "-json", "-directory", f.dir)
	var err error
	f.out, err = f.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, f.cmd.Start())
	f.lines = json.NewDecoder(f.out)
	return f
}

// next waits for the next record.
func (f *following) next() (k kept) {
	f.t.Helper()
	require.NoError(f.t, f.lines.Decode(&k))
	return k
}

// stop ends both processes, and requires that they end cleanly.
func (f *following) stop() {
	f.t.Helper()
	require.NoError(f.t, f.cmd.Process.Signal(os.Interrupt))
	_, err := io.Copy(io.Discard, f.out)
	require.NoError(f.t, err)
	require.NoError(f.t, f.cmd.Wait())
	f.plugin.stop(f.t)
}

func TestEventsAreFollowed(t *testing.T) {
	t.Parallel()
	f := startFollowing(t, everySecond)
	var seen []kept
	for countRecords(seen, isDrop) < 4 {
		seen = append(seen, f.next())
	}
	f.stop()
	require.Equal(t, readRecords(t, f.dir)[:len(seen)], seen)
}

// Nothing follows an event that changes no state, and it is shown all the same.
func TestALoneEventIsFollowed(t *testing.T) {
	t.Parallel()
	f := startFollowing(t, "[[event]]\nat = \"2s\"\ntype = \"port_active\"\ndevice = \"sim0\"\n")
	for f.next().Event != "port_active" {
	}
	f.stop()
}

// A second instance needs a directory of its own. Both go on.
func TestASecondInstanceRecordsNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "rdma_events")
	first := startRecording(t, dir, everySecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return err == nil && countRecords(readRecords(t, dir), isDrop) >= 1
	}, time.Minute, 200*time.Millisecond)
	second := startRecording(t, dir, everySecond)
	second.awaitLog(t, "nothing is recorded")
	second.stop(t)
	require.Regexp(t, fmt.Sprintf(`W! recorder: nothing is recorded, retry_in 1m0s, error .*%s.*another process records in it.*\n`, dir), second.stderr.String())
	first.stop(t)
	require.NotContains(t, first.stderr.String(), "W!")
	require.Equal(t, 1, countRecords(readRecords(t, dir), func(k *kept) bool { return k.Kind == "plugin" }))
}

func TestWithoutADirectoryOneLineSaysThatNothingIsRecorded(t *testing.T) {
	t.Parallel()
	r := startRecording(t, "/nonexistent/other", "")
	r.awaitLog(t, "nothing is recorded")
	r.stop(t)
	require.Equal(t, 1, strings.Count(r.stderr.String(), "nothing is recorded: recorder.directory is not set, and the unit has no StateDirectory=rdma_events\n"))
}
