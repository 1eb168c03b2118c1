//go:build guest

package system

import (
	"io"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestAClosedStdoutEndsThePluginInAStorm(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	p := rig.StartPlugin(t, users[1].prefix, quiet, false)
	worker := awaitHolder(t, p.PID(), device)
	ours := []int{p.PID(), worker}
	s := startStorm(t)
	guest.Eventually(t, "the storm", 20*time.Second, func() bool { return eventsRead(ledgerOf(t, worker)) > 0 })
	if err := p.Stdout.Close(); err != nil {
		t.Fatal(err)
	}
	p.Prompt()
	status, took := p.AwaitEnd(ours, 30*time.Second)
	requireShutdown(t, "after stdout was closed", took, ours)
	s.end()
	stderr, err := io.ReadAll(p.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if status != 2 || !strings.Contains(string(stderr), "E! write metrics to standard output: write: broken pipe\n") {
		t.Errorf("want status 2 and the reason, got %d and:\n%s", status, stderr)
	}
}

// awaitHolder waits until a child of the plugin has a device open.
func awaitHolder(t *testing.T, plugin int, name string) (worker int) {
	t.Helper()
	guest.Eventually(t, "a worker has "+name+" open", 30*time.Second, func() bool {
		worker = firstHolder(t, rig.Children(t, plugin), name)
		return worker != 0
	})
	return worker
}

// The plugin's standard error is full before the plugin writes to it. The plugin
// logs a line for each killed worker, and no process reads it.
func TestUnreadStderrStallsNothing(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	stderr := rig.FullFIFO(t)
	r := rig.Start(t, rig.Config{Plugin: fastProbe, Prefix: users[1].prefix, Interval: "250ms", Stderr: stderr.Name()})
	awaitOpen(r, device)
	survive := func(opens int64) {
		t.Helper()
		killProcess(t, awaitHolder(t, rig.Children(t, r.PID())[0], device))
		awaitOpens(r, device, opens)
		guest.Inject(t, device, guest.PKeyChange, 1, 10_000)
		points := r.Await("events are counted", 20*time.Second, func(p []rig.Point) bool {
			want := 10_000 * (opens - 1)
			return eventCounter(p, "1", "pkey_change") == want && eventSum(p, device, "pkey_change") == want
		})
		rig.RequireCountersNeverFall(t, points)
		awaitProbe(r, bestMethod(), vectorRounds(points, "0")+10)
	}
	survive(2)
	plugin := rig.Children(t, r.PID())[0]
	if !rig.IsFull(t, plugin, 2) {
		t.Error("want standard error full all the time")
	}
	rig.AwaitText(t, stderr, "worker of "+device)

	rig.Fill(t, stderr)
	survive(3)
	ours := append([]int{plugin}, r.Workers()...)
	began := time.Now()
	r.Stop()
	requireShutdown(t, "while stderr is not read", time.Since(began), ours)
}
