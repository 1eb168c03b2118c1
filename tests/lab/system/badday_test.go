//go:build guest

package system

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// A day in which a link drops, an address comes back at another index, a worker is killed and the firmware hangs is in
// the report that is made afterwards. The report stays in the guest's output directory, for people to read.
func TestTheReportOfABadDay(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	onVeth(t, func(t *testing.T, start func(plugin string) *rig.Telegraf) {
		dir, err := os.MkdirTemp("", "badday-") //nolint:usetesting // t.TempDir has a parent that only its owner may pass
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		records := filepath.Join(dir, "rdma_events")
		conf := fmt.Sprintf("[[inputs.rdma_events]]\n  [inputs.rdma_events.recorder]\n    directory = %q\n", records)
		r := start(conf)
		awaitGIDs(r)
		awaitGoodRounds(r, 3)
		haveABadDay(t, r)
		files := makeReport(t, conf, records, "/out/report.tar.gz")
		timeline := files["timeline.txt"]
		for _, want := range []string{
			"cause no_carrier", "cause admin_down", "moved", "SIGKILL", "query_port", "cause command_stuck",
		} {
			if !strings.Contains(timeline, want) {
				t.Errorf("the timeline does not have %q:\n%s", want, timeline)
			}
		}
		if !strings.Contains(files["MANIFEST.txt"], "timeline.txt") {
			t.Errorf("the manifest does not name the timeline:\n%s", files["MANIFEST.txt"])
		}
	})
}

// haveABadDay does to the device what happens to devices, with pauses in which nothing happens.
func haveABadDay(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	for range 3 {
		if _, err := guest.FlapLink(context.Background(), peer, guest.Flaps{Count: 1, Down: 80 * time.Millisecond, Period: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	}
	awaitGoodRounds(r, 2)

	a := &readded{device: device, netdev: netdev}
	connectQueuePair(t, a.index(t, a.address(t)))
	readdAddresses(t, true, a)
	r.Await("the address is at another index", 20*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("gid_moves") > 0 })

	killProcess(t, r.Workers()[0])
	r.Await("another worker", 30*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_device", "device", device).Int("opens") == 2
	})
	awaitGoodRounds(r, 3)

	guest.IP(t, "link", "set", netdev, "down")
	time.Sleep(3 * time.Second)
	guest.IP(t, "link", "set", netdev, "up")
	r.Await("the port is up", 30*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("up") == 1 })
	awaitEvidence(t, r, "port_err", 4)
	awaitGoodRounds(r, 2)

	guest.HangQueries(t, device, 12*time.Second)
	r.Await("the query is stuck", 60*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_command", "device", device, "call", "query_port").Int("stuck") == 1
	})
	r.Await("an answer", 60*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_command", "device", device, "call", "query_port").Int("stuck") == 0
	})
	awaitEvidence(t, r, "command", 1)
	time.Sleep(2 * time.Second) // what was recorded is on the disk within one
}

// makeReport runs rdma-events report as root, and returns the report's files by name.
func makeReport(t *testing.T, conf, records, path string) map[string]string {
	t.Helper()
	file := filepath.Join(filepath.Dir(records), "telegraf.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "report", "-config", file,
		"-directory", records, "-since", "1h", "-out", path)
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	if err != nil {
		t.Fatalf("make the report: %v", err)
	}
	return readArchive(t, path)
}
