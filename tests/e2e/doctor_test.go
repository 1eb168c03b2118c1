package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

// checkup is the output of `rdma-events doctor --json`.
type checkup struct {
	Status string
	Checks []struct{ Check, Subject, Status, Text, Fix string }
}

func (c checkup) status(check string) string {
	for _, one := range c.Checks {
		if one.Check == check {
			return one.Status
		}
	}
	return ""
}

// runDoctor runs the real program and requires that its exit status agrees with
// its report.
func runDoctor(t *testing.T, prefix []string, args ...string) checkup {
	t.Helper()
	line := append(prefix, rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "doctor", "--json")
	line = append(line, args...)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	out, err := cmd.Output()
	var c checkup
	if bad := json.Unmarshal(out, &c); bad != nil {
		t.Fatalf("%v: %v, %v:\n%s", line, err, bad, out)
	}
	if want := map[string]int{"ok": 0, "warn": 1, "fail": 2}[c.Status]; cmd.ProcessState.ExitCode() != want {
		t.Errorf("%v: report %s wants exit status %d, got %v", line, c.Status, want, err)
	}
	for _, one := range c.Checks {
		t.Logf("%-4s %s %s: %s [%s]", one.Status, one.Check, one.Subject, one.Text, one.Fix)
		if (one.Fix == "") != (one.Status == "ok" || one.Status == "skipped") {
			t.Errorf("%s %s: want a command that fixes it with a warning or a failure, and with nothing else", one.Check, one.Subject)
		}
	}
	return c
}

func requireNoDevices(t *testing.T) {
	t.Helper()
	if devices, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(devices) > 0 {
		t.Skip("this host has RDMA devices, and the test is of one without")
	}
}

func TestTheDoctorWorksWithoutDevicesAndPrivileges(t *testing.T) {
	requireNoDevices(t)
	for _, row := range []struct {
		name   string
		prefix []string
	}{
		{"as this user", nil},
		{"as an unprivileged user", []string{
			"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.prefix != nil {
				prerequisite.RequireRoot(t, "only root can become another user")
				t.Setenv("RDMA_EVENTS_BIN", rig.Install(t).Plugin) // other users may have no access to the checkout
			}
			c := runDoctor(t, row.prefix)
			for check, want := range map[string]string{
				"kernel_modules": "warn", "libibverbs": "ok", "providers": "ok", "worker_program": "ok", "probes": "skipped",
				"removal": "skipped",
			} {
				if got := c.status(check); got != want {
					t.Errorf("%s: want %s, got %q", check, want, got)
				}
			}
		})
	}
}

func TestTheDoctorReadsTelegrafsConfiguration(t *testing.T) {
	t.Parallel()
	plugin := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n", 0o644)
	telegraf := func(signal string) string {
		return writeFile(t, "telegraf.conf", "[[inputs.execd]]\n  command = [\""+rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events")+
			"\", \"-config\", \""+plugin+"\", \"-poll_interval_disabled\"]\n  signal = \""+signal+"\"\n", 0o644)
	}
	if got := runDoctor(t, nil, "-config", telegraf("STDIN")).status("telegraf"); got != "warn" {
		t.Errorf("a simulation: want warn, got %q", got)
	}
	c := runDoctor(t, nil, "-config", telegraf("none"))
	if c.status("telegraf") != "fail" || c.Status != "fail" {
		t.Errorf("a plugin that is never prompted: want fail, got %v", c)
	}
	broken := writeFile(t, "broken.conf", "[[inputs.rdma_events]]\n  devises = []\n", 0o644)
	if got := runDoctor(t, nil, "-config", broken).status("telegraf"); got != "fail" {
		t.Errorf("an unknown key: want fail, got %q", got)
	}
}

func TestTheDoctorMissesTheWorker(t *testing.T) {
	program, err := os.ReadFile(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RDMA_EVENTS_BIN", writeFile(t, "rdma-events", string(program), 0o755))
	c := runDoctor(t, nil)
	if c.status("worker_program") != "fail" || c.status("libibverbs") != "warn" {
		t.Errorf("want the worker program as failure, got %v", c)
	}
}

// The worker program itself tries the methods, here on simulated devices.
func TestTheWorkerTriesProbeMethods(t *testing.T) {
	t.Parallel()
	p, err := inspect.OpenWorkerProgram(rig.Program(t, "RDMA_EVENTS_WORKER", "rdma-events-worker"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	version, err := p.AskVersion(t.Context())
	if err != nil || version == "" || strings.Contains(version, " ") {
		t.Errorf("want a version, got %q, %v", version, err)
	}
	p.Request.Backend = verbs.BackendSim
	p.Request.Sim = verbs.Simulation{Profile: "roce2", Seed: 1}
	for _, m := range []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush} {
		tried := p.Try(t.Context(), "sim0", m)
		if !tried.Opened || len(tried.Ports[1].Rounds) < 5 || tried.Ports[1].Rounds[0].Outcome != verbs.OutcomeSuccess {
			t.Errorf("%s: want it to work, got %+v", m, tried)
		}
	}
	if tried := p.Try(t.Context(), "sim9", verbs.MethodFlush); tried.Opened || tried.Why == "" {
		t.Errorf("a device that is not there: want a reason, got %+v", tried)
	}
}
