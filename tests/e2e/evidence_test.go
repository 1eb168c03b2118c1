package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// explained is something that happens to one device, and the evidence that is to come of it.
type explained struct {
	entry          string
	trigger, cause string
}

func explainedDown(why, cause string) explained {
	return explained{"[[link]]\ndown_for = \"10s\"\nwhy = \"" + why + "\"\n", "port_err", cause}
}

// badMinute has every cause that no soft device can have, and some more, each on a device of its own: sim0, sim1 ... It
// comes back, so that a slow start misses nothing.
func badMinute() []explained {
	return []explained{
		explainedDown("carrier", "no_carrier"), explainedDown("admin", "admin_down"),
		explainedDown("no_cable", "no_cable"), explainedDown("cable_issue", "cable_issue"), explainedDown("bad_signal_integrity", "bad_signal"),
		explainedDown("link_training_failure", "training"), explainedDown("autoneg", "autoneg"), explainedDown("module", "module"),
		explainedDown("overheat", "overheat"), explainedDown("power_budget_exceeded", "power_budget"),
		explainedDown("eeprom_issue", "no_carrier"), // no word for it, and the rest is as certain
		{"[[gid]]\nto = 6\naway = \"500ms\"\n", "gid_change", "address_change"},
		{"[[event]]\ntype = \"device_fatal\"\n", "device_fatal", "device_fatal"},
		{"[[fault]]\nkind = \"removed\"\nfor = \"5s\"\n", "removed", "driver_removed"},
		{"[[command]]\nfor = \"8s\"\n", "command", "command_stuck"},
		{"[[fault]]\nkind = \"lost_event\"\nfor = \"2s\"\n", "lost_event", ""}, // nothing shows why
	}
}

// TestABadMinuteIsExplained takes what a real kernel does not do on demand from the simulator.
func TestABadMinuteIsExplained(t *testing.T) {
	t.Parallel()
	all := badMinute()
	var scenario strings.Builder
	for i, e := range all {
		fmt.Fprintf(&scenario, "%sat = \"4s\"\nevery = \"20s\"\ndevice = \"sim%d\"\n", e.entry, i)
	}
	r := rig.Start(t, rig.Config{Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.evidence]
    command_interval = "1s"
    command_stuck = "1s"
  [inputs.rdma_events.sim]
    profile = "fleet%d"
    scenario = %q
`, len(all), writeScenario(t, scenario.String()))})
	of := func(points []rig.Point, i int) []rig.Point {
		return rig.Select(points, "rdma_evidence", "device", fmt.Sprintf("sim%d", i), "trigger", all[i].trigger)
	}
	points := r.Await("evidence about each device", patience, func(points []rig.Point) bool {
		for i := range all {
			if len(of(points, i)) == 0 {
				return false
			}
		}
		return true
	})
	for i, e := range all {
		first := of(points, i)[0]
		require.Equal(t, e.cause, first.Text("cause"), "%v of sim%d: %v", e.entry, i, first.Fields)
	}
}

func TestAnotherSubnetManagerIsACause(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  devices = ["sim0", "sim1"]
  [inputs.rdma_events.sim]
    profile = "ib8"
    scenario = %q
`, writeScenario(t, `[[event]]
at = "3s"
type = "sm_change"
device = "sim0"
sm_lid = 7

[[event]]
at = "3s"
type = "sm_change"
device = "sim1"
`))})
	of := func(points []rig.Point, device string) []rig.Point {
		return rig.Select(points, "rdma_evidence", "device", device, "trigger", "sm_change")
	}
	points := r.Await("evidence about both devices", patience, func(points []rig.Point) bool {
		return len(of(points, "sim0")) > 0 && len(of(points, "sim1")) > 0
	})
	require.Equal(t, "sm_change", of(points, "sim0")[0].Text("cause"))
	require.Empty(t, of(points, "sim1")[0].Text("cause"), "its subnet manager is the same")
	lid := rig.Last(points, "rdma_attr_change", "attr", "sm_lid", "device", "sim0")
	require.Equal(t, "1 > 7", lid.Text("from")+" > "+lid.Text("to"))
}

// TestWithoutSnapshotsNothingElseChanges compares with the test case gids, which has the same scenario.
func TestWithoutSnapshotsNothingElseChanges(t *testing.T) {
	t.Parallel()
	const dir = "testcases/gids"
	conf, err := os.ReadFile(filepath.Join(dir, "rdma_events.conf"))
	require.NoError(t, err)
	scenario, err := os.ReadFile(filepath.Join(dir, "scenario.toml"))
	require.NoError(t, err)
	expected, err := os.ReadFile(filepath.Join(dir, "expected.out"))
	require.NoError(t, err)
	var want strings.Builder
	for line := range strings.Lines(string(expected)) {
		if !strings.HasPrefix(line, "rdma_evidence,") {
			want.WriteString(line)
		}
	}
	require.NotEqual(t, string(expected), want.String(), "the test case has evidence")
	plugin := strings.ReplaceAll(string(conf), "SCENARIO", writeScenario(t, string(scenario))) + `
  [inputs.rdma_events.evidence]
    snapshot_interval = "0s"
`
	r := rig.Start(t, rig.Config{Plugin: plugin})
	r.Await("the outcome of "+dir+" without evidence", patience, func(points []rig.Point) bool { return outcomeText(points) == want.String() })
}

// evidenceObject is what the tests read of the JSON about a trigger.
type evidenceObject struct {
	Kind     string
	Device   string
	Evidence *struct {
		Trigger, Cause string
		NetDev         string
		AdminUp        *bool `json:"admin_up"`
		Carrier        *bool
		ExtState       string `json:"ext_state"`
		Deltas         []struct {
			Source, Name string
			By           uint64
		}
	}
}

// unplugged has a link that goes down after its counter has moved.
const unplugged = `[[counter]]
at = "2s"
device = "sim0"
source = "counters"
name = "symbol_error"
by = 17

[[link]]
at = "3s"
device = "sim0"
why = "no_cable"
`

// requireUnplugged requires that a line is as the schema says, and reports whether it is the evidence about the drop.
func requireUnplugged(t *testing.T, definition, line string) bool {
	t.Helper()
	schema.Require(t, definition, line)
	var o evidenceObject
	require.NoError(t, json.Unmarshal([]byte(line), &o))
	e := o.Evidence
	if e == nil || e.Trigger != "port_err" {
		return false
	}
	require.Equal(t, "evidence", o.Kind)
	require.Equal(t, "sim0 no_cable no_cable simeth0a", strings.Join([]string{o.Device, e.Cause, e.ExtState, e.NetDev}, " "))
	require.True(t, *e.AdminUp)
	require.False(t, *e.Carrier)
	for _, d := range e.Deltas {
		if d.Name == "symbol_error" {
			require.Equal(t, "counters", d.Source)
			require.EqualValues(t, 17, d.By)
			return true
		}
	}
	require.Fail(t, "symbol_error has not moved", line)
	return false
}

func TestEvidenceIsAsTheSchemaSays(t *testing.T) {
	t.Parallel()
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, unplugged)), 0o644)
	watch := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "watch", "-json", "-config", conf)
	watch.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t))
	out, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = requireUnplugged(t, "watch", lines.Text())
	}
	require.NoError(t, watch.Process.Signal(os.Interrupt))
	require.NoError(t, watch.Wait())
	require.True(t, found)

	dir := filepath.Join(shortDir(t), "rdma_events")
	plugin := startRecording(t, dir, unplugged)
	require.Eventually(t, func() bool {
		if _, err := os.Stat(dir); err != nil {
			return false
		}
		text, _ := runCommand(t, "events", "-json", "-directory", dir)
		for line := range strings.Lines(text) {
			if requireUnplugged(t, "events", line) {
				return true
			}
		}
		return false
	}, time.Minute, 200*time.Millisecond)
	plugin.stop(t)
}
