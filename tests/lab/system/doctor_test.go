//go:build guest

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// finding is one check of `rdma-events doctor --json`.
type finding struct{ Check, Subject, Status, Text, Fix string }

// runDoctor returns the findings whose status is not ok. A guest has no directory of the recorder, which the package's
// unit file makes, and its users may not read the kernel's lines.
func runDoctor(t *testing.T, prefix []string) (bad []finding) {
	t.Helper()
	for _, f := range doctorFindings(t, prefix) {
		note := f.Status == "skipped" && slices.Contains([]string{"recorder", "ext_state", "dmesg_restrict"}, f.Check)
		if f.Status != "ok" && !note {
			bad = append(bad, f)
		}
	}
	return bad
}

// doctorFindings returns all findings of the doctor, and compares its exit status with
// the status of its report.
func doctorFindings(t *testing.T, prefix []string) []finding {
	t.Helper()
	line := append(append([]string{}, prefix...), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "doctor", "--json")
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	out, err := cmd.Output()
	var report struct {
		Status string
		Checks []finding
	}
	if unread := json.Unmarshal(out, &report); unread != nil {
		t.Fatalf("%v: %v, %v:\n%s", line, err, unread, out)
	}
	if want := map[string]int{"ok": 0, "warn": 1, "fail": 2}[report.Status]; cmd.ProcessState.ExitCode() != want {
		t.Errorf("report %s wants exit status %d, got %v", report.Status, want, err)
	}
	for _, f := range report.Checks {
		t.Logf("%-4s %s %s: %s [%s]", f.Status, f.Check, f.Subject, f.Text, f.Fix)
	}
	return report.Checks
}

// requireFixWorks requires a finding, runs the command that the doctor gives for it, and
// requires that the doctor then finds no fault.
func requireFixWorks(t *testing.T, prefix []string, check, status string) {
	t.Helper()
	bad := runDoctor(t, prefix)
	found := false
	for _, f := range bad {
		found = found || f.Check == check && f.Status == status
		if f.Check == check {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", "sudo() { \"$@\"; }; "+f.Fix).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", f.Fix, err, out)
			}
		}
	}
	if !found {
		t.Errorf("want %s to be %s, got %v", check, status, bad)
	}
	guest.Eventually(t, "all is well again", 20*time.Second, func() bool { return len(runDoctor(t, prefix)) == 0 })
}

func TestTheDoctorFindsAGoodDeviceGood(t *testing.T) {
	guest.AddDevice(t, device, guest.Driver(), netdev)
	for _, u := range testedUsers() {
		t.Run(u.name, func(t *testing.T) {
			if bad := runDoctor(t, u.prefix); len(bad) > 0 {
				t.Errorf("want all well, got %v", bad)
			}
		})
	}
	guest.DeleteLink(t, device) // would wait for a doctor that has the device open
}

func TestDoctorCommandsFixTheirFindings(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	for _, u := range testedUsers() {
		t.Run("a link that is down, as "+u.name, func(t *testing.T) {
			guest.IP(t, "link", "set", netdev, "down")
			requireFixWorks(t, u.prefix, "ports", "warn")
		})
	}
	t.Run("a node without permission", func(t *testing.T) {
		if err := os.Chmod("/dev/infiniband/"+nodeOf(t, device), 0o600); err != nil {
			t.Fatal(err)
		}
		requireFixWorks(t, users[1].prefix, "device_nodes", "fail")
	})
}
