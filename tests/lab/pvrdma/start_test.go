//go:build guest

package pvrdma

import (
	"encoding/json"
	"os/exec"
	"testing"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestDefaultsProbeByDatagrams(t *testing.T) {
	r := startTelegraf(t, defaults)
	points := awaitRounds(r, "ud_send", 20)
	requireNothingLost(t, probePoint(points, "ud_send"))
	if other := rig.Select(points, "rdma_cq_probe", "device", device, "method", "rc_write"); len(other) > 0 {
		t.Errorf("want no rounds of another method, got %v", other[0])
	}
	if d := devicePoint(points); d.Int("opens") != 1 || d.Int("worker_restarts") != 0 {
		t.Errorf("want one open, got %v", d.Fields)
	}
	if p := portPoint(points); p.Text("state_name") != "active" || p.Int("up") != 1 || p.Int("transitions") != 0 {
		t.Errorf("want the port active since the start, got %v", p.Fields)
	}
	requireAllAcknowledged(t, points)
}

func TestWritesOfAConnectionSucceed(t *testing.T) {
	r := startTelegraf(t, defaults+"  [inputs.rdma_events.probe]\n    method = \"rc_write\"\n")
	requireNothingLost(t, probePoint(awaitRounds(r, "rc_write", 20), "rc_write"))
}

func TestDoctorFindsNoFault(t *testing.T) {
	guest.AddPVRDMA(t)
	line := append(unprivileged[:len(unprivileged):len(unprivileged)], rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "doctor", "--json")
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	out, err := cmd.Output()
	var report struct {
		Checks []struct{ Check, Subject, Status, Text, Fix string }
	}
	if unread := json.Unmarshal(out, &report); unread != nil {
		t.Fatalf("read the report: %v, %v:\n%s", err, unread, out)
	}
	about := 0
	for _, f := range report.Checks {
		t.Logf("%-4s %s %s: %s [%s]", f.Status, f.Check, f.Subject, f.Text, f.Fix)
		if f.Status == "fail" {
			t.Errorf("want no fault, got %s %s: %s", f.Check, f.Subject, f.Text)
		}
		if f.Check == "probes" && f.Status == "ok" {
			about++
		}
	}
	if about == 0 {
		t.Error("want the device probed")
	}
}

// alone is a plugin that asks the device for nothing but what its probe needs.
const alone = `[[inputs.rdma_events]]
  state_interval = "0s"
  [inputs.rdma_events.evidence]
    command_interval = "0s"
    snapshot_interval = "0s"
`

// The provider asks the device for its port before it makes an address handle. The table of commands in docs/reference/device-commands.md
// says so, and the method that auto takes depends on it.
func TestRoundByDatagramCostsOneCommand(t *testing.T) {
	for _, row := range []struct {
		method   string
		commands int64 // of a round
	}{{"ud_send", 1}, {"rc_write", 0}} {
		t.Run(row.method, func(t *testing.T) {
			r := startTelegraf(t, alone+"  [inputs.rdma_events.probe]\n    method = \""+row.method+"\"\n")
			// A point is older than the interrupts are, by the rounds of one interval at most.
			before := probePoint(awaitRounds(r, row.method, 5), row.method).Int("rounds")
			commands := interruptCount(t, guest.InterruptOfCommands)
			after := probePoint(awaitRounds(r, row.method, before+20), row.method).Int("rounds")
			asked := int64(interruptCount(t, guest.InterruptOfCommands) - commands)
			t.Logf("%d commands in %d rounds", asked, after-before)
			if want := row.commands * (after - before); asked < want-2 || asked > want+2 {
				t.Errorf("want %d commands, got %d", want, asked)
			}
			r.Stop()
		})
	}
}

// Datagrams ten times a second would be 600 commands a minute.
func TestFastProbeSparesTheDevice(t *testing.T) {
	r := startTelegraf(t, defaults+"  [inputs.rdma_events.probe]\n    interval = \"100ms\"\n    timeout = \"90ms\"\n")
	points := awaitRounds(r, "rc_write", 20)
	if ud := probePoint(points, "ud_send"); ud.Int("successes") > 0 {
		t.Errorf("want no datagrams at this pace, got %v", ud.Fields)
	}
}

// The provider makes no address handle for a global address of IPv6.
func TestWithoutIPv4AutoTakesWrites(t *testing.T) {
	guest.AddPVRDMA(t)
	guest.IP(t, "addr", "delete", guest.PVRDMAAddress+"/24", "dev", guest.PVRDMANetdev)
	guest.IP(t, "-6", "addr", "add", "2001:db8::1/64", "dev", guest.PVRDMANetdev, "nodad")
	t.Cleanup(func() { guest.IP(t, "-6", "addr", "delete", "2001:db8::1/64", "dev", guest.PVRDMANetdev) })
	r := rig.Start(t, rig.Config{Plugin: defaults, Prefix: unprivileged, Interval: "250ms"})
	points := awaitRounds(r, "rc_write", 5)
	requireNothingLost(t, probePoint(points, "rc_write"))
	if ud := probePoint(points, "ud_send"); ud.Int("successes") > 0 {
		t.Errorf("want no datagram to a global address, got %v", ud.Fields)
	}
}
