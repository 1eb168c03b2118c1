//go:build guest

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// statusDir is where a service's plugin keeps its status. systemd makes it for Telegraf's user.
const statusDir = "/run/rdma_events-status"

// pluginStatus returns what `rdma-events status -json` prints, run as a user without rights.
func pluginStatus(t *testing.T) *health.Status {
	t.Helper()
	line := slices.Concat(users[1].prefix, []string{rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "status", "-json"})
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	out, _ := cmd.Output() // the exit status is that of the worst problem
	s := new(health.Status)
	if err := json.Unmarshal(out, s); err != nil {
		t.Fatalf("%v: %v: %s", line, err, out)
	}
	return s
}

// reportedPort returns the device's port in a status of the running plugin, or nil if the status does not have it.
func reportedPort(s *health.Status) *health.Port {
	for _, d := range s.Devices {
		if s.Source == health.SourcePlugin && d.Device == device && len(d.Ports) == 1 {
			return &d.Ports[0]
		}
	}
	return nil
}

// ownStatusDir makes a new statusDir for the user without rights, until the end of the test.
func ownStatusDir(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(statusDir); err != nil { // a plugin that ran as root has made it
		t.Fatal(err)
	}
	if err := os.Mkdir(statusDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(statusDir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(statusDir); err != nil {
			t.Error(err)
		}
	})
}

// A device that has failed is still a problem after a restart of Telegraf, and the problem began when the device failed. If the clock is
// set afterwards, the beginning moves with it.
func TestFatalErrorIsAProblemAfterARestart(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(plugin string) *rig.Telegraf) {
		ownStatusDir(t)
		since := func() (began time.Time) {
			t.Helper()
			guest.Eventually(t, "the problem device-fatal", 60*time.Second, func() bool {
				for _, p := range pluginStatus(t).Problems {
					if p.ID == "device-fatal" && p.Device == device {
						began = p.Since
					}
				}
				return !began.IsZero()
			})
			return began
		}
		r := start(quiet)
		guest.Inject(t, device, guest.DeviceFatal, 1, 1)
		began := since()
		restarts := 2
		if testing.Short() {
			restarts = 1
		}
		for range restarts {
			r.Stop()
			r = start(quiet)
			if again := since(); !again.Equal(began) {
				t.Errorf("the problem began at %v, and after a restart at %v", began, again)
			}
		}
		const ahead = time.Hour
		setWallClock(t, ahead)
		defer setWallClock(t, -ahead)
		defer r.Stop() // before the clock is set back, which would stop its intervals
		guest.Eventually(t, "the beginning by the clock as it is now", 60*time.Second, func() bool {
			return since().Sub(began.Add(ahead)).Abs() < time.Minute
		})
	})
}

// unmerged raises max_event_points in the plugin's configuration to its maximum. The plugin merges points above that limit,
// and a merged point lacks the time and the process of each event.
func unmerged(plugin string) string {
	return strings.Replace(plugin, "[[inputs.rdma_events]]", "[[inputs.rdma_events]]\n  max_event_points = 10000", 1)
}

func TestStatusAgreesWithRDMALinkAndTheMetricsAlsoDuringFlaps(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(plugin string) *rig.Telegraf) {
		ownStatusDir(t)
		r := start(unmerged(quiet))
		agrees := func(want string) {
			t.Helper()
			guest.Eventually(t, "a status that agrees with rdma link: "+want, 20*time.Second, func() bool {
				p := reportedPort(pluginStatus(t))
				state, physical := guest.LinkState(t, device, 1)
				return p != nil && state == want && p.State == state && p.PhysState == physical
			})
		}
		agrees("active")
		guest.IP(t, "link", "set", netdev, "down")
		agrees("down")
		guest.IP(t, "link", "set", netdev, "up")
		agrees("active")

		// A guest may take so long for one status that those of a few flaps are all of the same state.
		const atOnce, atMost = 10, 100
		var seen []*health.Status
		states, n := map[string]int{}, 0
		for ; (states["down"] == 0 || states["active"] == 0) && n < atMost; n += atOnce {
			for _, s := range statusesDuringFlaps(t, atOnce) {
				seen = append(seen, s)
				states[reportedPort(s).State]++
			}
		}
		agrees("active")
		flaps := n + 1
		points := r.Await("all flaps", 30*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("flaps") == int64(flaps) })
		guest.Eventually(t, "all flaps in the status", 20*time.Second, func() bool { return reportedPort(pluginStatus(t)).Flaps == uint64(flaps) })
		for _, s := range seen {
			requireMetrics(t, points, s)
		}
		t.Logf("compared %d statuses during %d flaps, by state: %v", len(seen), n, states)
		if states["down"] == 0 || states["active"] == 0 {
			t.Errorf("want statuses of both states during the flaps, got %v", states)
		}
	})
}

// statusesDuringFlaps lets the link flap, and returns the statuses that it read meanwhile.
func statusesDuringFlaps(t *testing.T, count int) (seen []*health.Status) {
	t.Helper()
	flapped := make(chan error, 1)
	go func() {
		_, err := guest.FlapLink(t.Context(), netdev, guest.Flaps{Count: count, Down: dropped, Period: 2 * dropped})
		flapped <- err
	}()
	for {
		select {
		case err := <-flapped:
			if err != nil {
				t.Fatal(err)
			}
			return seen
		default:
			seen = append(seen, pluginStatus(t))
		}
	}
}

// requireMetrics requires that a status has what the last point of its port has until then: that of its interval, or the one
// before if a change took the place of that while both waited to be emitted.
func requireMetrics(t *testing.T, points []rig.Point, s *health.Status) {
	t.Helper()
	var last rig.Point
	for _, p := range rig.Select(points, "rdma_port", "device", device, "port", "1") {
		if p.Time <= s.Time.UnixNano() && p.Time >= last.Time {
			last = p
		}
	}
	p := reportedPort(s)
	if last.Text("state_name") != p.State || last.Int("flaps") != int64(p.Flaps) {
		t.Errorf("status of %v: %+v; want that of the metrics of %v: %v", s.Time, *p, time.Unix(0, last.Time), last.Fields)
	}
}
