//go:build guest

package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestADeviceNodeWithoutPermissionSilencesNoOther(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, "rdma0", guest.Driver(), "d0")
	guest.AddDevice(t, "rdma1", guest.Driver(), "d1")
	node := "/dev/infiniband/" + nodeOf(t, "rdma0")
	if err := os.Chmod(node, 0o600); err != nil {
		t.Fatal(err)
	}
	r := rig.Start(t, rig.Config{Plugin: quiet, Prefix: users[1].prefix})
	awaitOpen(r, "rdma1")
	r.Await("no_permission", 30*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", "rdma0")
		return d.Text("reason") == "no_permission" && d.Int("open") == 0 && d.Int("present") == 1
	})
	requireOneLine(t, r, "rdma0", node)
	guest.Inject(t, "rdma1", guest.PKeyChange, 1, 2)
	r.Await("the other device goes on", 20*time.Second, func(p []rig.Point) bool {
		return asyncPoint(p, "rdma1").Int("pkey_change") == 2
	})
}

func nodeOf(t *testing.T, device string) string {
	t.Helper()
	nodes, err := filepath.Glob("/sys/class/infiniband_verbs/uverbs*/ibdev")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range nodes {
		name, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(name)) == device {
			return filepath.Base(filepath.Dir(path))
		}
	}
	t.Fatalf("%s has no node", device)
	return ""
}

// requireOneLine requires exactly one warning or error in the log about a device,
// and all of the texts in it.
func requireOneLine(t *testing.T, r *rig.Telegraf, device string, texts ...string) {
	t.Helper()
	r.AwaitLog(texts[0], 10*time.Second) // the line may come after the points
	var lines []string
	for line := range strings.Lines(r.Log()) {
		if strings.Contains(line, " E! ") || strings.Contains(line, " W! ") {
			if strings.Contains(line, device) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) != 1 {
		t.Fatalf("want one line about %s, got %d:\n%s", device, len(lines), r.Log())
	}
	t.Logf("the line: %s", lines[0])
	for _, text := range texts {
		if !strings.Contains(lines[0], text) {
			t.Errorf("want %q in the line %q", text, lines[0])
		}
	}
}

func TestMissingLibraryIsReportedInOneLine(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	libs, err := filepath.Glob("/usr/lib/*/libibverbs.so.1*")
	if err != nil || len(libs) == 0 {
		t.Fatalf("no libibverbs to hide: %v", err)
	}
	for _, lib := range libs {
		if err := os.Rename(lib, lib+".hidden"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Rename(lib+".hidden", lib); err != nil {
				t.Error(err)
			}
		})
	}
	r := rig.Start(t, rig.Config{Plugin: quiet})
	r.Await("no_library", 30*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Text("reason") == "no_library" && d.Int("present") == 1
	})
	requireOneLine(t, r, device, "libibverbs.so.1", "install")
}

func TestWithoutADeviceThePluginWaitsForOne(t *testing.T) {
	guest.RequireGuest(t)
	guest.Modprobe(t, "ib_core")
	r := rig.Start(t, rig.Config{Plugin: quiet})
	r.Await("no device", 30*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_collector").Int("devices") == 0
	})
	r.AwaitLog("no RDMA device", 10*time.Second)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	awaitOpen(r, device)
	r.Stop() // before the device is deleted
}
