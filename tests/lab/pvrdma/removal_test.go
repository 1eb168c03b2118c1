//go:build guest

package pvrdma

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The driver cannot take a device away from its users. So the kernel waits until the worker has closed it.
func TestRemovedDeviceIsClosedAndReopened(t *testing.T) {
	for _, row := range []struct {
		name          string
		remove, bring func(t testing.TB)
		functions     int64 // removals of the function
	}{
		{"driver unbound and bound", guest.UnbindPVRDMA, guest.BindPVRDMA, 0},
		{
			"function removed, bus scanned",
			func(t testing.TB) { guest.RemoveFunction(t, guest.PVRDMAFunction) }, guest.RescanPCI, 1,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			guest.AddPVRDMA(t)
			without := timeTaken(func() { row.remove(t) })
			row.bring(t)
			guest.AddPVRDMA(t)

			r := startTelegraf(t, defaults)
			awaitRounds(r, "ud_send", 3)
			requireEventsCounted(t, r, 7)
			requireNoDelay(t, row.name, timeTaken(func() { row.remove(t) }), without)
			points := awaitRemoved(r, 1)
			if p := portPoint(points); p.Text("state_name") != "absent" {
				t.Errorf("want the port absent, got %v", p.Fields)
			}
			if d := devicePoint(points); d.Int("worker_restarts") != 0 || d.Int("crashes") != 0 || d.Int("fatals") != 0 {
				t.Errorf("want a removal and no other fault, got %v", d.Fields)
			}

			row.bring(t)
			guest.AddPVRDMA(t)
			began := time.Now()
			awaitOpens(r, 2)
			t.Logf("open again after %v", time.Since(began).Round(time.Millisecond))
			requireEventsCounted(t, r, 2)
			points = r.Await("evidence", 90*time.Second, func(p []rig.Point) bool {
				return len(rig.Select(p, "rdma_evidence", "device", device, "trigger", "removed")) > 0
			})
			if e := rig.Last(points, "rdma_evidence", "device", device, "trigger", "removed"); e.Text("cause") != "driver_removed" {
				t.Errorf("want the cause driver_removed, got %v", e.Fields)
			}
			points = r.Await("the removal is known", 60*time.Second, func(p []rig.Point) bool {
				return devicePoint(p).Int("function_removals")+devicePoint(p).Int("unplanned_removals") == 1
			})
			if n := devicePoint(points).Int("function_removals"); n != row.functions {
				t.Errorf("want %d removals of the function, got %d", row.functions, n)
			}
			if n := eventCount(points, "pkey_change"); n != 9 {
				t.Errorf("want the 9 events of before and after, got %d", n)
			}
			requireAllAcknowledged(t, points)
			rig.RequireCountersNeverFall(t, points)
			r.Stop()
		})
	}
}

// unplugged is how long the kernel takes to remove the functions of a slot, at most: one after the other.
const unplugged = 60 * time.Second

// Both functions of the slot go, and the machine has no way to plug in the second one again, so that this test is the last one
// of its guest.
func TestUnpluggedDeviceIsRemoved(t *testing.T) {
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	began := time.Now()
	guest.Unplug(t, guest.PVRDMAModel)
	guest.Eventually(t, "the function is gone", unplugged, func() bool { return !guest.HasFunction(guest.PVRDMAFunction) })
	requireNoDelay(t, "device_del", time.Since(began), 0)
	points := awaitRemoved(r, 1)
	if d := devicePoint(points); d.Int("worker_restarts") != 0 || d.Int("crashes") != 0 || d.Int("fatals") != 0 {
		t.Errorf("want a removal and no other fault, got %v", d.Fields)
	}
	requireAllAcknowledged(t, points)
	rig.RequireCountersNeverFall(t, points)
}

// The core takes a reference to the driver's module for each context, unless the driver can take its devices away.
func TestDriverUnloadsOnceItsDeviceIsUnbound(t *testing.T) {
	guest.AddPVRDMA(t)
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	err := guest.TryUnloadModule(t, "vmw_pvrdma")
	if err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Fatalf("want the driver in use, got %v", err)
	}
	points := awaitRounds(r, "ud_send", probePoint(r.Points(), "ud_send").Int("successes")+3)
	if d := devicePoint(points); d.Int("opens") != 1 || d.Int("removals") != 0 {
		t.Errorf("want the device undisturbed, got %v", d.Fields)
	}

	guest.UnbindPVRDMA(t)
	if err := guest.TryUnloadModule(t, "vmw_pvrdma"); err != nil {
		t.Errorf("want the driver unloaded beside the plugin, got %v", err)
	}
	awaitRemoved(r, 1)
	guest.AddPVRDMA(t)
	awaitOpens(r, 2)
	requireEventsCounted(t, r, 3)
}

// As docs/how-to/maintenance.md says.
func TestDriverUnloadsDuringARelease(t *testing.T) {
	guest.AddPVRDMA(t)
	c := startReleasable(t)
	awaitRounds(c.Telegraf, "ud_send", 3)
	c.command(t, device+": closed, and released until", "release", "-for", "20m")
	if err := guest.TryUnloadModule(t, "vmw_pvrdma"); err != nil {
		t.Fatalf("want the driver unloaded as soon as release returns, got %v", err)
	}
	guest.AddPVRDMA(t)
	points := c.Await("the device is found again", 30*time.Second, func(p []rig.Point) bool {
		return devicePoint(p).Int("present") == 1 && devicePoint(p).Text("reason") == "released"
	})
	if d := devicePoint(points); d.Int("unplanned_removals") != 0 || d.Int("open") != 0 {
		t.Errorf("want the device closed, and no removal that nobody had asked for, got %v", d.Fields)
	}
	c.command(t, device+": watched again", "resume")
	awaitOpens(c.Telegraf, 2)
	requireEventsCounted(t, c.Telegraf, 3)
	c.Stop()
}

// releasable is a plugin with the directories that systemd makes for a service.
type releasable struct {
	*rig.Telegraf
	env string
}

func startReleasable(t *testing.T) *releasable {
	t.Helper()
	base, err := os.MkdirTemp("/run", "release-") //nolint:usetesting // t.TempDir has a parent that only its owner may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	var dirs []string
	for _, name := range []string{"rdma_events", "rdma_events-status"} {
		dir := base + "/" + name
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	env := "RUNTIME_DIRECTORY=" + strings.Join(dirs, ":")
	c := &releasable{rig.Start(t, rig.Config{Plugin: defaults, Prefix: unprivileged, Interval: "250ms", Env: []string{env}}), env}
	awaitOpens(c.Telegraf, 1)
	return c
}

// command runs rdma-events as root and requires success and a text that it prints.
func (c *releasable) command(t *testing.T, want string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
	cmd.Env = append(os.Environ(), c.env)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("rdma-events %v: want %q, got %v:\n%s", args, want, err, out)
	}
}
