//go:build guest

package system

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The test covers the functions of the library that the plugin uses, and is short
// enough to be run with each library. LAB_LIBRARY is the required version.
func TestThisLibraryServesEventsProbesAndCounters(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		guest.WithoutLinkLocal(t, netdev)
		r := start(fastProbe)
		requireLibrary(t, r)
		awaitProbe(r, bestMethod(), 20)

		flaps := guest.Flaps{Count: 5, Down: 200 * time.Millisecond, Period: 400 * time.Millisecond}
		if _, err := guest.FlapLink(t.Context(), netdev, flaps); err != nil {
			t.Fatal(err)
		}
		// The first event has no name in libraries before rdma-core 62, the second one in no library.
		guest.Inject(t, device, guest.SpeedChange, 1, 2)
		guest.Inject(t, device, 77, 1, 3)
		points := r.Await("all events", 30*time.Second, func(p []rig.Point) bool {
			return portPoint(p, device).Int("flaps") == 5 && asyncPoint(p, device).Int("port_active") == 5 &&
				eventCounter(p, "", "device_speed_change") == 2 && eventCounter(p, "", "unknown_77") == 3
		})
		requireEvents(t, points, 5)
		requireState(t, points, 5)
		requireEqual(t, "unacked of the device", 0, rig.Last(points, "rdma_async", "device", device, "port", "").Int("unacked"))

		rounds := rig.Last(points, "rdma_cq_probe", "method", bestMethod(), "vector", "0").Int("rounds")
		points = awaitProbe(r, bestMethod(), rounds+20)
		for _, method := range probeMethods() {
			p := rig.Last(points, "rdma_cq_probe", "method", method, "vector", "0")
			if method == bestMethod() || p.Fields != nil { // others only while the link was down
				requireParity(t, p)
			}
		}
	})
}

// requireLibrary requires that the worker uses the library under test, and that the
// doctor reports its version.
func requireLibrary(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	mapped := regexp.MustCompile(`/libibverbs\.so\.\d+\.\d+\.(\S+)\n`).FindStringSubmatch(processFile(t, r.Workers()[0], "maps"))
	if mapped == nil {
		t.Fatal("the worker has no libibverbs")
	}
	if want := os.Getenv("LAB_LIBRARY"); want != "" && mapped[1] != want {
		t.Errorf("want libibverbs %s in the worker, got %s", want, mapped[1])
	}
	for _, f := range doctorFindings(t, nil) {
		if f.Check == "libibverbs" && (f.Status != "ok" || !strings.HasPrefix(f.Text, "version "+mapped[1]+" ")) {
			t.Errorf("want the doctor to find version %s, got %+v", mapped[1], f)
		}
	}
	t.Logf("libibverbs %s", mapped[1])
}
