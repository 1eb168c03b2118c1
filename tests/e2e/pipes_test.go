package e2e

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// stormConfig returns a configuration with enough events of enough types to fill a pipe with lines within a few seconds.
func stormConfig(t *testing.T) string {
	var scenario strings.Builder
	for _, kind := range []string{"sm_change", "lid_change", "pkey_change", "client_reregister", "unknown_30", "unknown_31"} {
		scenario.WriteString("[[event]]\nevery = \"5ms\"\ncount = 100\ntype = \"" + kind + "\"\n")
	}
	return simulated + "    scenario = \"" + writeScenario(t, scenario.String()) + "\"\n"
}

// startStormy starts the plugin and returns once its stdout is full. Stdout then
// contains the plugin's first lines.
func startStormy(t *testing.T, stderrFull bool) (p *rig.Plugin, workers []int) {
	t.Helper()
	p = rig.StartPlugin(t, nil, stormConfig(t), stderrFull)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(time.Minute); ; {
		workers = rig.Children(t, p.PID())
		if len(workers) == 4 && rig.IsFull(t, p.PID(), 1) {
			return p, workers
		}
		select {
		case <-poll.C:
			p.Prompt()
		case <-deadline:
			t.Fatalf("want four workers and stdout full, got %v", workers)
		}
	}
}

func TestAClosedStdoutEndsThePluginAndItsWorkers(t *testing.T) {
	t.Parallel()
	p, workers := startStormy(t, false)
	if err := p.Stdout.Close(); err != nil {
		t.Fatal(err)
	}
	status, took := p.AwaitEnd(workers, time.Minute)
	requireShutdown(t, took)
	said, err := io.ReadAll(p.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if status != 2 || !strings.Contains(string(said), "E! write metrics to standard output: write: broken pipe\n") {
		t.Errorf("want status 2 and the reason, got %d and:\n%s", status, said)
	}
}

func TestPluginEndsInTimeWhileOutputIsUnread(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name string
		do   func(*rig.Plugin) error
	}{
		{"SIGTERM", func(p *rig.Plugin) error { return syscall.Kill(p.PID(), syscall.SIGTERM) }},
		{"stdin closed", func(p *rig.Plugin) error { return p.Stdin.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			p, workers := startStormy(t, true)
			if err := end.do(p); err != nil {
				t.Fatal(err)
			}
			_, took := p.AwaitEnd(workers, time.Minute)
			requireShutdown(t, took)
		})
	}
}

// requireShutdown allows ten times shutdown_timeout for the end, because the
// machine may be busy.
func requireShutdown(t *testing.T, took time.Duration) {
	t.Helper()
	const promised = 3 * time.Second
	t.Logf("ended in %v, promised %v", took.Round(time.Millisecond), promised)
	if took > 10*promised {
		t.Errorf("want the end within ten times %v, got %v", promised, took)
	}
}

// A worker that crashes causes several lines in the log, and no process reads them.
func TestUnreadStderrStallsNothing(t *testing.T) {
	t.Parallel()
	stderr := rig.FullFIFO(t)
	r := rig.Start(t, rig.Config{Stderr: stderr.Name(), Plugin: simulated + `    scenario = "` + writeScenario(t, `[[event]]
at = "15s"
type = "sm_change"
count = 1000

[[fault]]
at = "16s"
kind = "crash"

[[event]]
at = "30s"
type = "sm_change"
count = 1000
`) + `"
`}) // beside many other tests the workers take seconds to open their devices, and as long to open them again
	points := r.Await("counters and sums of count of all devices", 2*time.Minute, func(points []rig.Point) bool {
		for _, device := range []string{"sim0", "sim1", "sim2", "sim3"} {
			sum := rig.Sum(rig.Select(points, "rdma_async_event", "device", device, "event", "sm_change"), "count")
			if sum != 2000 || rig.Last(points, "rdma_async", "device", device, "port", "1").Int("sm_change") != 2000 {
				return false
			}
		}
		return true
	})
	if restarts := rig.Last(points, "rdma_collector").Int("worker_restarts"); restarts != 4 {
		t.Errorf("want 4 restarts, got %d", restarts)
	}
	if !rig.IsFull(t, rig.Children(t, r.PID())[0], 2) {
		t.Error("want standard error full all the time")
	}
	rig.AwaitText(t, stderr, "traceback of the crash")
	rig.Fill(t, stderr)
	ours := pluginProcesses(t, r)
	began := time.Now()
	r.Stop()
	requireShutdown(t, time.Since(began))
	awaitGone(t, r, ours, time.Second)
}
