package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// flapping drops the link for 50 ms, twice, with P_Key changes in between.
const flapping = `[[event]]
at = "3s"
every = "1s"
times = 2
type = "port_err"

[[event]]
at = "3050ms"
every = "1s"
times = 2
type = "port_active"

[[event]]
at = "3500ms"
type = "pkey_change"
count = 7
`

func startWatch(t *testing.T, scenario string, args ...string) *rig.Watch {
	t.Helper()
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, scenario)), 0o644)
	return rig.StartWatch(t, nil, append([]string{"-config", conf}, args...)...)
}

func shownEvents(records []rig.Record, name string) []rig.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r rig.Record) bool { return r.Event != name })
}

func TestWatchShowsEachEventWithTheStateBeforeAndAfter(t *testing.T) {
	t.Parallel()
	w := startWatch(t, flapping, "-device", "sim0")
	records := w.Await("both drops", time.Minute, func(r []rig.Record) bool { return len(shownEvents(r, "port_active")) == 2 })
	w.End(syscall.SIGINT)
	for _, r := range shownEvents(records, "port_active") {
		if r.Device != "sim0" || r.Port != 1 || r.StateFrom != "down" || r.StateTo != "active" || r.Witness != "event" {
			t.Errorf("want down > active of sim0 port 1, got %+v", r)
		}
	}
	requireLasted(t, shownEvents(records, "port_err"), shownEvents(records, "port_active"))
	changes := shownEvents(records, "pkey_change")
	if len(changes) != 1 || changes[0].Count != 7 || changes[0].StateFrom != "active" || changes[0].StateTo != "active" {
		t.Errorf("want 7 pkey_change on an active port, got %+v", changes)
	}
	for _, r := range records {
		if r.Device != "sim0" && r.Device != "" {
			t.Errorf("want sim0 only, got %+v", r)
		}
	}
}

// requireLasted compares the duration of each drop with the times at which its two events were read. The simulator
// sends the events when it gets the processor, so they are 50 ms apart, or somewhat more.
func requireLasted(t *testing.T, downs, ups []rig.Record) {
	t.Helper()
	for i, up := range ups {
		lasted, between := time.Duration(up.LastedNS), up.Time.Sub(downs[i].Time)
		if (lasted-between).Abs() > time.Millisecond || lasted < 10*time.Millisecond || lasted > time.Second {
			t.Errorf("want some 50 ms, the %v between the two events, got %v", between, lasted)
		}
	}
}

func TestWatchLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		sig  syscall.Signal
		args []string
	}{
		{"after Ctrl-C", syscall.SIGINT, nil},
		{"after a hang-up", syscall.SIGHUP, nil},
		{"after its time", 0, []string{"-for", "6s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := startWatch(t, flapping, append(row.args, "-probe")...)
			w.Await("both devices are open", time.Minute, func(r []rig.Record) bool { return hasOpened(r, "sim0") && hasOpened(r, "sim1") })
			if n := len(rig.Children(t, w.PID())); n != 2 {
				t.Errorf("want two workers, got %d", n)
			}
			began := time.Now()
			w.End(row.sig)
			t.Logf("ended in %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

func hasOpened(records []rig.Record, device string) bool {
	return slices.ContainsFunc(records, func(r rig.Record) bool { return r.Device == device && r.Kind == "device" && r.Reason == "ok" })
}

func TestWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, flapping)), 0o644)
	dir := shortDir(t)
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "watch", "-config", conf, "-probe")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "sim") || strings.Contains(line, "\x1b") {
		t.Errorf("want a line without colours, got %q, %v", line, err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("want no error without a reader, got %v", err)
	}
	requireEmpty(t, dir)
}

func TestWatchEndsWhileOutputIsUnread(t *testing.T) {
	t.Parallel()
	storm := "[[event]]\nat = \"1s\"\nevery = \"1ms\"\ntimes = 5000\ntype = \"port_err\"\n\n" +
		"[[event]]\nat = \"1s\"\nevery = \"1ms\"\ntimes = 5000\ntype = \"port_active\"\n"
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, storm)), 0o644)
	dir := shortDir(t)
	r, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "watch", "-config", conf, "-json", "-for", "5s")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+dir)
	cmd.Stdout = stdout
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Errorf("want status 0, got %v", err)
	}
	if err := stdout.Close(); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	t.Logf("ended after %v, promised after 5 s", took.Round(time.Millisecond))
	if took > 50*time.Second {
		t.Errorf("want the end after 5 s, got %v", took)
	}
	requireEmpty(t, dir)
}

func TestWatchShowsWakeUpLatency(t *testing.T) {
	t.Parallel()
	w := startWatch(t, flapping, "-probe", "-device", "sim0")
	records := w.Await("three seconds of probes", time.Minute, func(r []rig.Record) bool {
		return len(slices.DeleteFunc(slices.Clone(r), func(r rig.Record) bool { return r.Probe == nil })) >= 3
	})
	var shown uint64
	for _, r := range records {
		if r.Probe == nil {
			continue
		}
		var n uint64
		for _, b := range r.Probe.Buckets {
			n += b.Count
		}
		// Rounds are counted at once; their durations follow within half a second.
		if n > r.Probe.Successes || n+10 < r.Probe.Successes || r.Probe.Method != "ud_send" {
			t.Errorf("want a histogram of all rounds but those of the last half second, got %+v", *r.Probe)
		}
		shown = max(shown, n)
	}
	if shown == 0 {
		t.Error("no round is in any histogram")
	}
}

// shortDir returns a directory whose path is short enough for the sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "watch-") //nolint:usetesting // the test's own is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("want an empty runtime directory, got %v, %v", entries, err)
	}
}

// A flap comes 5 s after the start, and the documents promise one within 20 s.
func TestTheDemonstrationShowsAFlapAndSaysThatItIsOne(t *testing.T) {
	t.Parallel()
	w := rig.StartWatch(t, nil, "-demo")
	records := w.Await("a flap", 20*time.Second*10, func(r []rig.Record) bool { return len(shownEvents(r, "port_active")) > 0 })
	w.End(syscall.SIGINT)
	flap := shownEvents(records, "port_active")[0]
	if flap.StateFrom != "down" || flap.StateTo != "active" || flap.LastedNS <= 0 {
		t.Errorf("want down > active after some time, got %+v", flap)
	}
	if !slices.ContainsFunc(records, func(r rig.Record) bool { return r.Kind == "log" && strings.Contains(r.Text, "simulated") }) {
		t.Errorf("no line says that the devices are simulated: %+v", records)
	}
}
