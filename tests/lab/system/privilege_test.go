//go:build guest

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// If a worker gave up its capabilities after it has started a thread, or thread by
// thread, it could open and query rxe, but each post would fail with EACCES.
func TestAProbeNeedsNoCapability(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		for _, method := range probeMethods() {
			r := start(strings.ReplaceAll(fastProbe, "[inputs.rdma_events.probe]", "[inputs.rdma_events.probe]\n    method = \""+method+"\""))
			awaitProbe(r, method, 5)
			for _, pid := range r.Workers() {
				status := processFile(t, pid, "status")
				for _, line := range []string{"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
					if !strings.Contains(status, line) {
						t.Errorf("want %q in the worker's status, got:\n%s", line, status)
					}
				}
				requireNoInotify(t, pid)
			}
			if probe := rig.Last(r.Points(), "rdma_cq_probe", "device", device); probe.Int("errors") != 0 {
				t.Errorf("want no error, got %v", probe.Fields)
			}
			r.Stop()
		}
	})
}

// requireNoInotify requires that a worker has no inotify instance. A worker that
// receives uevents needs none, also when it is confined. Its user may have 128
// instances, and other programs may need them.
func requireNoInotify(t *testing.T, pid int) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Fatalf("want the worker's descriptors, got %v, %v", links, err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.Contains(to, "inotify") {
			t.Errorf("want no inotify instance in the worker, got %s", to)
		}
	}
}

// A kernel that is short of memory drops entries of /proc and creates them again later. Landlock then denies a worker the files that it was
// allowed to read.
func TestDroppedCachesDoNotKeepAWorkerFromReleasingMemory(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		begin := rig.Last(r.Points(), "rdma_device", "device", device).Time
		dropped := begin
		r.Await("the worker has read its mappings, 5 s after its start", time.Minute, func(p []rig.Point) bool {
			now := rig.Last(p, "rdma_device", "device", device).Time
			if now-dropped >= time.Second.Nanoseconds() {
				dropped = now
				if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return now-begin > (10 * time.Second).Nanoseconds()
		})
		r.Stop()
		if log := r.Log(); strings.Contains(log, "memory map") {
			t.Errorf("want no failure of the memory map in the log, got:\n%s", log)
		}
	})
}

func processFile(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Root may lock all memory by CAP_IPC_LOCK, with any limit.
func TestRootsWorkerMayLockAsMuchMemoryAsRoot(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	r := rig.Start(t, rig.Config{Plugin: quiet, Prefix: []string{"prlimit", "--memlock=65536:65536", "--"}})
	awaitOpen(r, device)
	const want = "Max locked memory         unlimited            unlimited"
	if limits := processFile(t, r.Workers()[0], "limits"); !strings.Contains(limits, want) {
		t.Errorf("want %q in the worker's limits, got:\n%s", want, limits)
	}
}

// Root opens another user's node by CAP_DAC_OVERRIDE. Its worker does not have this
// capability.
func TestANodeThatRootMayNotOpenByItsModeIsReported(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	node := "/dev/infiniband/" + nodeOf(t, device)
	if err := os.Chown(node, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(node, 0o600); err != nil {
		t.Fatal(err)
	}
	r := rig.Start(t, rig.Config{Plugin: quiet})
	r.Await("no_permission", 30*time.Second, func(p []rig.Point) bool {
		return rig.Last(p, "rdma_device", "device", device).Text("reason") == "no_permission"
	})
	requireOneLine(t, r, device, node, "user 0", "no capabilities")
}
