package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

const simulated = `[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.probe]
    interval = "100ms"
    timeout = "50ms"
  [inputs.rdma_events.sim]
    profile = "fleet4"
`

func awaitOpen(r *rig.Telegraf, devices int) {
	r.Await(fmt.Sprint(devices, " open devices"), time.Minute, func(points []rig.Point) bool {
		open := 0
		for i := range devices {
			open += int(max(rig.Last(points, "rdma_device", "device", fmt.Sprint("sim", i)).Int("open"), 0))
		}
		return open == devices
	})
}

func pluginProcesses(t *testing.T, r *rig.Telegraf) []int {
	t.Helper()
	all := append(rig.Children(t, r.PID()), r.Workers()...)
	if len(all) != 5 {
		t.Fatalf("want the plugin and four workers, got %v", all)
	}
	return all
}

func awaitGone(t *testing.T, r *rig.Telegraf, pids []int, promised time.Duration) {
	t.Helper()
	began := time.Now()
	r.Await("the end of all processes", 10*promised, func([]rig.Point) bool {
		for _, pid := range pids {
			if rig.Running(pid) {
				return false
			}
		}
		return true
	})
	t.Logf("all gone after %v, promised %v", time.Since(began).Round(time.Millisecond), promised)
}

func TestNothingIsLeftAfterAnOrderlyStop(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated})
	awaitOpen(r, 4)
	ours := pluginProcesses(t, r)
	began := time.Now()
	r.Stop()
	t.Logf("Telegraf stopped in %v, promised 5 s", time.Since(began).Round(time.Millisecond))
	awaitGone(t, r, ours, time.Second)
}

func TestNoProcessIsGivenHugePages(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated})
	awaitOpen(r, 4)
	for _, pid := range pluginProcesses(t, r) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(text), "\nTHP_enabled:\t0\n") {
			t.Errorf("want huge pages refused in process %d, got %v\n%s", pid, err, text)
		}
	}
}

func TestEveryProcessHasALongTimerSlack(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated})
	awaitOpen(r, 4)
	ours := pluginProcesses(t, r)
	for _, pid := range ours {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", pid))
		if err != nil || string(text) != "500000\n" {
			t.Errorf("want 0.5 ms of timer slack in process %d, got %q, %v", pid, text, err)
		}
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", ours[0]))
	if err != nil || string(name) != "rdma-events\n" {
		t.Errorf("want the plugin to keep its name, got %q, %v", name, err)
	}
}

func TestNothingOutlivesAKilledTelegraf(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated})
	awaitOpen(r, 4)
	ours := pluginProcesses(t, r)
	r.Kill()
	awaitGone(t, r, ours, time.Second)
}

func TestWorkersDoNotOutliveAKilledPlugin(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated, RestartDelay: "1s"})
	awaitOpen(r, 4)
	ours := pluginProcesses(t, r)
	sendSignal(t, ours[0], syscall.SIGKILL)
	awaitGone(t, r, ours, time.Second)
	r.Await("Telegraf's new plugin has workers", time.Minute, func([]rig.Point) bool { return len(r.Workers()) == 4 })
}

func TestAKilledWorkerIsReplacedAndNoCounterFalls(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated})
	awaitOpen(r, 4)
	victim := r.Workers()[0]
	sendSignal(t, victim, syscall.SIGKILL)
	began := time.Now()
	points := r.Await("a restart", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_collector").Int("worker_restarts") == 1 && len(r.Workers()) == 4
	})
	t.Logf("replaced and reported after %v", time.Since(began).Round(time.Millisecond))
	highest := map[string]int64{}
	for _, p := range rig.Select(points, "rdma_cq_probe") {
		for _, field := range []string{"rounds", "events", "acked", "successes"} {
			key := p.Series() + field
			if p.Int(field) < highest[key] {
				t.Errorf("%s fell from %d to %d", key, highest[key], p.Int(field))
			}
			highest[key] = p.Int(field)
		}
	}
	if len(highest) == 0 {
		t.Error("no counter was seen")
	}
}

// A plugin whose output no process reads must go on counting, and must stop in
// time.
func TestAStoppedTelegrafLosesNoCount(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: `[[inputs.rdma_events]]
  backend = "sim"
  devices = ["sim0"]
  [inputs.rdma_events.sim]
    scenario = "` + writeScenario(t, `[[event]]
at = "4s"
every = "10ms"
times = 300
type = "sm_change"
count = 100
`) + `"
`})
	awaitOpen(r, 1)
	sendSignal(t, r.PID(), syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(r.PID(), syscall.SIGCONT) }) // in case the test fails before it continues Telegraf
	// The storm lasts from the fourth to the seventh second.
	ended := time.NewTimer(8 * time.Second)
	<-ended.C
	sendSignal(t, r.PID(), syscall.SIGCONT)
	r.Await("counter and sum of count", time.Minute, func(points []rig.Point) bool {
		sum := rig.Sum(rig.Select(points, "rdma_async_event", "event", "sm_change"), "count")
		return sum == 30000 && rig.Last(points, "rdma_async", "port", "1").Int("sm_change") == 30000
	})
}

// A signal of the Go runtime would end a command of some drivers.
func TestWorkersRunWithAsynchronousPreemptionOff(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: simulated, Env: []string{"GODEBUG=madvdontneed=1"}})
	awaitOpen(r, 4)
	for _, pid := range r.Workers() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for kv := range strings.SplitSeq(string(text), "\x00") {
			if strings.HasPrefix(kv, "GODEBUG=") {
				got = append(got, kv)
			}
		}
		if len(got) != 1 || got[0] != "GODEBUG=asyncpreemptoff=1" {
			t.Errorf("worker %d: want GODEBUG=asyncpreemptoff=1 and nothing of Telegraf's, got %q", pid, got)
		}
	}
}

func writeScenario(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/scenario.toml"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sendSignal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if pid == 0 { // 0 is the test's own process group (kill(2))
		t.Fatal("there is no process to send a signal to")
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}
