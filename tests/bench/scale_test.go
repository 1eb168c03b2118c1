//go:build bench

package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

const (
	scaleSection = "Scale, simulated devices"
	scaleTurns   = 7
	// window is how long CPU time is measured in a turn. It has one gathering, as
	// with Telegraf's default. settling is how long the start of a fleet takes.
	window   = 10 * time.Second
	settling = 12 * time.Second
)

// crowded explains why the processor time per device grows with the number of devices.
const crowded = "in a profile (perf, 40 s each) a device takes less time with 256 than with 64, in our code (0.023 against 0.025 % of " +
	"a core) as in the kernel; what grows, by the scheduler's count, is the number of time slices, 12 to 18 %: 257 processes are in " +
	"each other's way on two cores"

// slowLines explains how long a gathering of many devices takes.
const slowLines = "the first line comes after 9 to 17 ms; each of the 1,794 lines, seven a device, is then written by a system call of " +
	"its own, by Telegraf's shim, while this test reads them and 256 workers run on the same two cores"

// sample has the costs of one device.
type sample struct{ hostMiB, workerMiB, cpu []float64 }

// measureScale compares the costs of one device among 8, 64 and 256 devices with
// its costs among fewer. Costs that differ by 5 % at most are equal.
func measureScale(t *testing.T) *Report {
	t.Helper()
	var r Report
	var gather []float64
	fewer := 1
	few, _ := measureFleet(t, fewer)
	r.Figures = append(r.Figures, Figure{
		Section: scaleSection, What: "CPU of host and worker, one device, one probe a second, a gathering every 10 s", Unit: "% of a core",
		Ours: few.cpu, Bound: 0.03, Note: "the C loop itself takes less than the scheduler's count can tell on real cores",
		Missed: "a wake-up with what it does takes 60 to 150 us on this machine: a round, and four times in 10 s the signs of life, " +
			"the check and the query of the port; the gathering takes the rest",
	})
	for _, devices := range []int{8, 64, 256} {
		var many sample
		many, gather = measureFleet(t, devices)
		row := func(what, unit string, ours, other []float64, bound float64) {
			r.Figures = append(r.Figures, Figure{
				Section: scaleSection, What: fmt.Sprintf("%s, %d devices", what, devices), Unit: unit,
				Ours: ours, Other: other, OtherIs: fmt.Sprintf("with %d", fewer), Bound: bound, Missed: crowded,
			})
		}
		row("host's RSS per device", "MiB", many.hostMiB, few.hostMiB, 1.05)
		row("CPU of host and worker per device", "% of a core", many.cpu, few.cpu, 1.05)
		row("worker's PSS", "MiB", many.workerMiB, few.workerMiB, 0)
		fewer, few = devices, many
	}
	r.Figures = append(r.Figures, Figure{
		Section: scaleSection, What: "gather of 256 devices, from the prompt to its last line", Unit: "ms", Bound: 50, Ours: gather,
		Missed: slowLines,
	})
	return &r
}

// measureFleet runs the plugin with simulated devices and a probe a second each.
func measureFleet(t *testing.T, devices int) (s sample, gatherMs []float64) {
	t.Helper()
	p := startFleet(t, devices)
	<-time.After(settling)
	host := []int{p.cmd.Process.Pid}
	workers := rig.Children(t, host[0])
	all := append(host, workers...)
	for range scaleTurns {
		gatherMs = append(gatherMs, float64(p.gather(t).Microseconds())/1e3)
		before := cpuTime(t, all)
		<-time.After(window)
		used := cpuTime(t, all) - before
		s.cpu = append(s.cpu, 100*used.Seconds()/window.Seconds()/float64(devices))
		rss, _, err := Memory(host[0])
		if err != nil {
			t.Fatal(err)
		}
		s.hostMiB = append(s.hostMiB, rss/float64(devices))
		s.workerMiB = append(s.workerMiB, meanPSS(t, workers))
	}
	p.stop(t)
	t.Logf("%d devices: %+v, gather %v ms", devices, s, gatherMs)
	return s, gatherMs
}

func cpuTime(t *testing.T, pids []int) time.Duration {
	t.Helper()
	used, err := CPUTime(pids)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

func meanPSS(t *testing.T, pids []int) float64 {
	t.Helper()
	var sum float64
	for _, pid := range pids {
		_, pss, err := Memory(pid)
		if err != nil {
			t.Fatal(err)
		}
		sum += pss
	}
	return sum / float64(len(pids))
}

// fleet is the plugin without Telegraf. It gathers at each line on its standard
// input.
type fleet struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func startFleet(t *testing.T, devices int) *fleet {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "plugin.conf")
	text := fmt.Sprintf("[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.sim]\n    profile = \"fleet%d\"\n", devices)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &fleet{cmd: exec.Command(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", conf, "-poll_interval_disabled")}
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReaderSize(stdout, 1<<20)
	p.awaitOpen(t, devices)
	return p
}

// awaitOpen waits until as many devices are open.
func (p *fleet) awaitOpen(t *testing.T, devices int) {
	t.Helper()
	open := map[string]bool{}
	for len(open) < devices {
		l := p.line(t)
		if name, _, ok := strings.Cut(l, " "); ok && strings.HasPrefix(l, "rdma_device,") && strings.Contains(l, ",open=1i") {
			open[name] = true
		}
	}
}

func (p *fleet) line(t *testing.T) string {
	t.Helper()
	l, err := p.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("read from the plugin: %v", err)
	}
	return l
}

// gather returns how long it takes from the prompt to the line of the collector,
// which comes last.
func (p *fleet) gather(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	for !strings.HasPrefix(p.line(t), "rdma_collector ") {
	}
	return time.Since(began)
}

func (p *fleet) stop(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	if _, err := io.Copy(io.Discard, p.lines); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
