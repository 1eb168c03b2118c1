//go:build bench

package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/conformance/standin"
	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

const (
	quietSection = "A healthy host, native devices over the stand-in library"
	quietTurns   = 3
	// quietSpan is the time between two prompts in which wake-ups are counted. Ports are queried every 5 s, and commands made
	// every 10 s.
	quietSpan = 20 * time.Second
)

// quietFleet is a plugin with native devices.
type quietFleet struct {
	*fleet
	workers []int
}

// quiet has what a plugin did between two prompts.
type quiet struct {
	host, workers []float64 // wake-ups a second
	cpu           []float64 // % of a core, both
}

// TestQuiet measures the rows of measureQuiet alone.
func TestQuiet(t *testing.T) {
	r := measureQuiet(t)
	for _, f := range r.Figures {
		s := spreadOf(f.Ours)
		t.Logf("%s: %.3g [%.3g to %.3g] %s, at most %.3g", f.What, s.median, s.min, s.max, f.Unit, f.Bound)
	}
}

// measureQuiet counts what the plugin does between two prompts while nothing happens.
func measureQuiet(t *testing.T) *Report {
	t.Helper()
	const devices = 8
	var r Report
	row := func(what, unit string, ours []float64, bound float64, missed string) {
		r.Figures = append(r.Figures, Figure{Section: quietSection, What: what, Unit: unit, Ours: ours, Bound: bound, Missed: missed})
	}
	const inGo = "the tables below count what woke the threads: the rest is Go's network poller, its idle threads and its monitor thread (sysmon)"
	probed := countQuiet(t, devices, "1s")
	row("wake-ups of the workers, 8 devices, a round a second each", "per round", scaleValues(probed.workers, 1./devices), 3,
		"one wake-up of a round is the probe's thread; "+inGo)
	row("wake-ups of the host, 8 devices, a round a second each", "a second", probed.host, 2, inGo)
	calm := countQuiet(t, devices, "0s")
	const calls = 1./5 + 1./10 // of a device a second: a query of its port, and a command
	row("wake-ups of the workers, 8 devices, no probes", "per call of the device", scaleValues(calm.workers, 1/(devices*calls)), 3,
		"a worker shows every 2.5 s that it is alive, beside three calls in ten seconds; "+inGo)
	row("wake-ups of the host, 8 devices, no probes", "a second", calm.host, 2, inGo)
	one := countQuiet(t, 1, "1s")
	r.Tables = append(r.Tables, profileQuiet(t, "1s"), profileQuiet(t, "0s"))
	row("processor time of host and worker, one device, a round a second", "% of a core", one.cpu, 0.03,
		"six wake-ups a second, which take 60 to 150 us each with their work")
	return &r
}

func scaleValues(values []float64, by float64) []float64 {
	var out []float64
	for _, v := range values {
		out = append(out, v*by)
	}
	return out
}

func countQuiet(t *testing.T, devices int, interval string) (q quiet) {
	t.Helper()
	f := startQuietFleet(t, devices, interval)
	f.gather(t)
	for range quietTurns {
		<-time.After(settling)
		host := []int{f.cmd.Process.Pid}
		before, ofHost, ofWorkers := cpuTime(t, append(host, f.workers...)), countWakeUps(t, host), countWakeUps(t, f.workers)
		<-time.After(quietSpan)
		q.host = append(q.host, (countWakeUps(t, host)-ofHost)/quietSpan.Seconds())
		q.workers = append(q.workers, (countWakeUps(t, f.workers)-ofWorkers)/quietSpan.Seconds())
		q.cpu = append(q.cpu, 100*(cpuTime(t, append(host, f.workers...))-before).Seconds()/quietSpan.Seconds())
		f.gather(t)
	}
	f.stop(t)
	return q
}

// profileQuiet counts the wake-ups of a minute without a prompt by what each thread waits for, with one device.
func profileQuiet(t *testing.T, interval string) Table {
	t.Helper()
	const minute = time.Minute
	f := startQuietFleet(t, 1, interval)
	f.gather(t)
	<-time.After(settling)
	table := Table{Section: quietSection, Head: []string{"a thread that waits for", "plugin", "worker"}}
	table.Lead = fmt.Sprintf("Wake-ups of an idle minute of one device with `probe.interval = %q`:", interval)
	count := func(pids ...int) map[string]float64 {
		n, err := ThreadWakeUps(pids)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	host, workers := count(f.cmd.Process.Pid), count(f.workers...)
	<-time.After(minute)
	hostAfter, workersAfter := count(f.cmd.Process.Pid), count(f.workers...)
	for _, what := range []string{WaitsForEvent, WaitsForRound, WaitsForGo, WaitsForTimer, WaitsOtherwise} {
		h, w := hostAfter[what]-host[what], workersAfter[what]-workers[what]
		if what == WaitsOtherwise && h == 0 && w == 0 {
			continue
		}
		table.Rows = append(table.Rows, []string{what, fmt.Sprintf("%.0f", h), fmt.Sprintf("%.0f", w)})
	}
	f.stop(t)
	return table
}

func countWakeUps(t *testing.T, pids []int) float64 {
	t.Helper()
	s, err := CountSwitches(pids)
	if err != nil {
		t.Fatal(err)
	}
	return s.WakeUps
}

func startQuietFleet(t *testing.T, devices int, interval string) *quietFleet {
	t.Helper()
	prerequisite.RequireRoot(t, "the plugin gets a mount namespace with the devices of the stand-in")
	dir, libraries := t.TempDir(), t.TempDir()
	if _, err := standin.Compile("../../internal/conformance/standin/testdata", libraries); err != nil {
		t.Fatal(err)
	}
	var ports []string
	for i := range devices {
		ports = append(ports, fmt.Sprintf("%q", fmt.Sprintf("standin%d:1", i)))
		device, node := fmt.Sprintf("standin%d", i), fmt.Sprintf("uverbs%d", i)
		for _, err := range []error{
			standin.WriteFile(filepath.Join(dir, "nodes", node), ""), standin.WriteSysfs(dir, device, node),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := standin.Map(filepath.Join(dir, "nodes", device)); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(t.TempDir(), "plugin.conf")
	text := fmt.Sprintf("[[inputs.rdma_events]]\n  ports = [%s]\n  [inputs.rdma_events.probe]\n    interval = %q\n",
		strings.Join(ports, ", "), interval)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	enter, err := filepath.Abs("../native/testdata/enter.sh")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{cmd: exec.Command("unshare", "--mount", "sh", enter, dir,
		rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", conf, "-poll_interval_disabled")}
	f.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries, "VERBS_STANDIN=/dev/infiniband")
	stdout, err := f.cmd.StdoutPipe()
	if err == nil {
		f.stdin, err = f.cmd.StdinPipe()
	}
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.lines = bufio.NewReaderSize(stdout, 1<<20)
	f.awaitOpen(t, devices)
	return &quietFleet{fleet: f, workers: rig.Children(t, f.cmd.Process.Pid)}
}
