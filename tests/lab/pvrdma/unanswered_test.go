//go:build guest

package pvrdma

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// driverTimeout is how long the driver waits for the answer to a command (PVRDMA_CMD_TIMEOUT in pvrdma_cmd.c).
const driverTimeout = 10 * time.Second

// stuckCommand returns the newest point of a command that is stuck.
func stuckCommand(points []rig.Point) (p rig.Point, ok bool) {
	last := map[string]rig.Point{}
	for _, c := range rig.Select(points, "rdma_command", "device", device) {
		last[c.Series()] = c
	}
	for _, c := range last {
		if c.Int("stuck") == 1 {
			return c, true
		}
	}
	return rig.Point{}, false
}

// The driver gives up each command after ten seconds, so a worker without probes goes on and keeps the device open. The open of a
// worker that starts meanwhile is not answered, until the device answers again.
func TestDeviceThatAnswersNoCommandIsStuckAndRecovers(t *testing.T) {
	r := startTelegraf(t, quiet)
	requireEventsCounted(t, r, 5)
	worker := r.Workers()[0]

	answer := guest.HoldInterrupt(t, guest.InterruptOfCommands)
	points := awaitStuckCommand(t, r)
	if d := devicePoint(points); d.Text("reason") != "ok" {
		t.Errorf("want the device watched, got %v", d.Fields)
	}
	points = r.Await("three queries that nothing answers", 3*time.Minute, func(p []rig.Point) bool {
		c := rig.Last(p, "rdma_command", "device", device, "call", "query_port")
		return c.Text("status") == "ETIMEDOUT" && c.Int("errors") >= 3
	})
	if d := devicePoint(points); d.Int("open") != 1 || d.Int("worker_restarts") != 0 || !rig.Running(worker) {
		t.Errorf("want the worker to keep the device open, got %v", d.Fields)
	}

	if err := unix.Kill(worker, unix.SIGKILL); err != nil {
		t.Fatalf("kill worker: %v", err)
	}
	points = r.Await("the open of the next worker is not answered", 90*time.Second, func(p []rig.Point) bool {
		return devicePoint(p).Int("open") == 0 && devicePoint(p).Text("reason") == "recovering"
	})
	if d := devicePoint(points); d.Int("present") != 1 || d.Int("removals") != 0 {
		t.Errorf("want the device present, got %v", d.Fields)
	}

	answer()
	began := time.Now()
	r.Await("the device is open again", 2*time.Minute, func(p []rig.Point) bool {
		return devicePoint(p).Int("open") == 1 && devicePoint(p).Int("opens") >= 2 && asyncPoint(p).Fields != nil
	})
	t.Logf("open again %v after the device had answered", time.Since(began).Round(time.Millisecond))
	requireEventsCounted(t, r, 4)
	points = awaitAnsweredCommands(r)
	if n := eventCount(points, "pkey_change"); n != 9 {
		t.Errorf("want the 9 events of before and after, got %d", n)
	}
	rig.RequireCountersNeverFall(t, points)
}

// A probe needs a command each round. Its call is given up after ten seconds too, or later if it waits behind another one, and its
// worker is then replaced.
func TestProbesGoOnOnceTheirDeviceAnswersCommands(t *testing.T) {
	r := startTelegraf(t, defaults)
	points := awaitRounds(r, "ud_send", 3)
	answer := guest.HoldInterrupt(t, guest.InterruptOfCommands)
	awaitStuckCommand(t, r)
	answer()
	awaitRounds(r, "ud_send", probePoint(points, "ud_send").Int("successes")+3)
	rig.RequireCountersNeverFall(t, awaitAnsweredCommands(r))
}

// awaitStuckCommand waits until a command of the device is stuck.
func awaitStuckCommand(t *testing.T, r *rig.Telegraf) []rig.Point {
	points := r.Await("a command is stuck", 60*time.Second, func(p []rig.Point) bool {
		_, stuck := stuckCommand(p)
		return stuck
	})
	c, _ := stuckCommand(points)
	t.Logf("stuck: %s %v", c.Series(), c.Fields)
	return points
}

// awaitAnsweredCommands waits until no command of the device is stuck. A call that the next worker does not make stays stuck for a
// minute.
func awaitAnsweredCommands(r *rig.Telegraf) []rig.Point {
	return r.Await("no command is stuck", 3*time.Minute, func(p []rig.Point) bool {
		_, stuck := stuckCommand(p)
		return !stuck
	})
}

// The kernel asks the device for its port before it passes a port's event on, for all drivers (ib_cache_event_task in
// core/cache.c).
func TestEventBehindAnUnansweredCommandIsLate(t *testing.T) {
	r := startTelegraf(t, quiet)
	answer := guest.HoldInterrupt(t, guest.InterruptOfCommands)
	guest.IP(t, "link", "set", guest.PVRDMANetdev, "down")
	t.Cleanup(func() { guest.IP(t, "link", "set", guest.PVRDMANetdev, "up") })
	began := time.Now()
	guest.Eventually(t, "the kernel asks for the port", driverTimeout/2, kernelAsksForPort)
	if n := eventCount(r.Points(), "port_err"); n != 0 {
		t.Errorf("want no event before the device answers, got %d", n)
	}
	answer()
	points := r.Await("the event", 60*time.Second, func(p []rig.Point) bool {
		return eventCount(p, "port_err") == 1 && portPoint(p).Text("state_name") == "down"
	})
	t.Logf("down after %v, witness %s", time.Since(began).Round(time.Millisecond),
		rig.Last(points, "rdma_port_change", "device", device).Tags["witness"])
	requireAllAcknowledged(t, points)
}

// kernelAsksForPort reports whether the kernel is about to pass on an event, and waits for an answer about its port.
func kernelAsksForPort() bool {
	stacks, _ := filepath.Glob("/proc/[0-9]*/stack")
	for _, stack := range stacks {
		text, err := os.ReadFile(stack)
		if err == nil && bytes.Contains(text, []byte(" ib_cache_event_task+")) && bytes.Contains(text, []byte(" pvrdma_cmd_post+")) {
			return true
		}
	}
	return false
}

// An answer that is pending when the driver is unbound crashes Linux 6.1 when the device is bound again: the driver completes a
// command before it has made the first one. So the device stays away, and this test is the last one of its guest.
func TestRemovalOfASilentDeviceIsNotHeldUp(t *testing.T) {
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	guest.ForgetInterrupt(t, guest.InterruptOfCommands)
	guest.Eventually(t, "a command waits", 20*time.Second, func() bool { return waitingThread(r.Workers()[0]) != 0 })
	// The kernel's own command for the removal waits as long without the plugin.
	requireNoDelay(t, "unbind of a silent device", timeTaken(func() { guest.UnbindPVRDMA(t) }), driverTimeout)
	points := awaitRemoved(r, 1)
	requireAllAcknowledged(t, points)
	rig.RequireCountersNeverFall(t, points)
}

// waitingThread returns the number of a thread of a process that waits for the answer to a command; 0: there is none.
func waitingThread(pid int) int {
	stacks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", pid))
	for _, stack := range stacks {
		text, err := os.ReadFile(stack)
		if err != nil || !bytes.Contains(text, []byte(" pvrdma_cmd_post+")) {
			continue
		}
		if tid, err := strconv.Atoi(filepath.Base(filepath.Dir(stack))); err == nil {
			return tid
		}
	}
	return 0
}

// A signal to a thread that waits for an answer ends the command with ETIMEDOUT (pvrdma_cmd_recv), although the device is well.
func TestSignalEndsACommand(t *testing.T) {
	r := startTelegraf(t, quiet)
	answer := guest.HoldInterrupt(t, guest.InterruptOfCommands)
	worker, thread := r.Workers()[0], 0
	guest.Eventually(t, "a command waits", 20*time.Second, func() bool {
		thread = waitingThread(worker)
		return thread != 0
	})
	began := time.Now()
	if err := unix.Tgkill(worker, thread, unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	points := r.Await("the command has ended", 60*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_command", "device", device, "call", "query_port").Text("status") == "ETIMEDOUT"
	})
	if took := time.Since(began); took > driverTimeout/2 {
		t.Errorf("want the command ended by the signal, it ended %v later", took)
	}
	answer()
	t.Logf("%v", rig.Last(points, "rdma_command", "device", device, "call", "query_port").Fields)
}

// The Go runtime would send its threads SIGURG, by which some of these commands would end.
func TestCommandsOfAHealthyDeviceNeverTimeOut(t *testing.T) {
	const commands = 300
	signals := traceSIGURG(t)
	r := startTelegraf(t, defaults+"  state_interval = \"100ms\"\n")
	queries := func(p []rig.Point) rig.Point {
		return rig.Last(p, "rdma_command", "device", device, "call", "query_port")
	}
	points := r.Await("queries of the port", 3*time.Minute, func(p []rig.Point) bool { return queries(p).Int("calls") >= commands })
	if q := queries(points); q.Int("errors") != 0 {
		t.Errorf("want no command ended, got %v", q.Fields)
	}
	toWorker, toOthers := signals(r.Workers()[0])
	t.Logf("%d commands; %d signals SIGURG to the worker, %d to other processes", queries(points).Int("calls"), toWorker, toOthers)
	if toWorker != 0 {
		t.Errorf("want no SIGURG to the worker, got %d", toWorker)
	}
	if toOthers == 0 {
		t.Error("want a trace that shows the signals of other Go programs")
	}
}

// traceSIGURG has the kernel trace SIGURG until the end of the test. The function returns how many were sent to the threads of
// a process since, and how many to others.
func traceSIGURG(t *testing.T) (count func(pid int) (to, others int)) {
	t.Helper()
	const dir = "/sys/kernel/tracing"
	if _, err := os.Stat(dir + "/events"); err != nil {
		if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
			t.Fatalf("mount tracefs: %v", err)
		}
	}
	set := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	set("trace", "")
	set("events/signal/signal_generate/filter", fmt.Sprintf("sig==%d", unix.SIGURG))
	set("events/signal/signal_generate/enable", "1")
	t.Cleanup(func() { set("events/signal/signal_generate/enable", "0") })
	return func(pid int) (to, others int) {
		t.Helper()
		trace, err := os.ReadFile(dir + "/trace")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(trace) {
			_, after, found := bytes.Cut(line, []byte(" pid="))
			if !found {
				continue
			}
			number, _, _ := bytes.Cut(after, []byte(" "))
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%s", pid, number)); err == nil {
				to++
			} else {
				others++
			}
		}
		return to, others
	}
}
