package drivers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestDeviceFindsItsRow(t *testing.T) {
	for _, c := range []struct{ kernel, transport, want string }{
		{"mlx5_core", "infiniband", "mlx5"},
		{"mlx5_core.sf", "infiniband", "mlx5"},
		{"ice", "infiniband", "irdma, RoCE"},
		{"ice", "iwarp", "irdma, iWARP"},
		{"erdma", "iwarp", "erdma"},
		{"erdma", "infiniband", "erdma"},
		{"efa", "unspecified", "efa"},
		{"rdma_rxe", "infiniband", "rxe"},
		{"siw", "iwarp", "siw"},
	} {
		d, ok := Find(c.kernel, c.transport)
		require.True(t, ok, c)
		require.Equal(t, c.want, d.Name)
	}
	_, ok := Find("a driver of tomorrow", "infiniband")
	require.False(t, ok)
}

func TestScalableFunctionsOfMlx5AreLikeItsOthers(t *testing.T) {
	const function, scalable = "mlx5_core", "mlx5_core.sf"
	require.NotZero(t, verbs.DriverCommands(scalable))
	require.Equal(t, verbs.DriverCommands(function), verbs.DriverCommands(scalable))
	require.Equal(t, verbs.AddressHandleCommands(function), verbs.AddressHandleCommands(scalable))
	require.Equal(t, verbs.DriverRaisesEvents(function), verbs.DriverRaisesEvents(scalable))
	require.Equal(t, verbs.DriverReportsState(function), verbs.DriverReportsState(scalable))
	require.Equal(t, verbs.ProviderName(function), verbs.ProviderName(scalable))
	for _, running := range []Release{{5, 15}, {6, 1}, {6, 12}} {
		require.Equal(t, Unload(function, running), Unload(scalable, running), running)
	}
}

func TestRowsAreWhole(t *testing.T) {
	names, calls := map[string]bool{}, Calls()
	for _, d := range All() {
		require.False(t, names[d.Name], d.Name)
		names[d.Name] = true
		require.NotEmpty(t, d.Kernel, d.Name)
		for _, text := range []string{d.Devices, d.Events, d.Probe, d.LinkDowned} {
			require.NotEmpty(t, text, d.Name)
			require.NotContains(t, text, "|", d.Name)
		}
		require.NotEqual(t, verbs.MethodNone, d.First, d.Name)
		require.Regexp(t, `^(core|hw/\w+|sw/\w+)/\w+\.c$`, d.StateFile, d.Name)
		require.Equal(t, len(d.Standin) > 0, d.Known == ByStandin, d.Name)
		for _, costs := range []Costs{d.Costs, d.Ethernet} {
			for call := range costs {
				require.Contains(t, calls, call, d.Name)
			}
		}
		requireWholeFiles(t, d)
		for _, kernel := range d.Kernel {
			require.Equal(t, d.Events == "none", !verbs.DriverRaisesEvents(kernel), d.Name)
			require.Equal(t, d.State == OfNone, !verbs.DriverReportsState(kernel), d.Name)
			if d.Transport != "iwarp" { // iWARP has no handles, and shares its kernel driver with RoCE
				require.Equal(t, d.Costs[CreateAH] > 0, verbs.AddressHandleIsCommand(kernel), "%s: %s", d.Name, kernel)
			}
			for call, cost := range map[verbs.CommandCall]Call{
				verbs.CommandHWCounters: HWCounter, verbs.CommandQueryPort: PortQuery, verbs.CommandQueryQP: QueryQP,
			} {
				frozen := d.Name == "bnxt_re" && call == verbs.CommandHWCounters
				require.Equal(t, d.Costs[cost] > 0 && !frozen, verbs.DriverCommands(kernel).Has(call), "%s: %s: %v", d.Name, kernel, call)
			}
		}
	}
	for _, name := range []string{
		"mlx5", "mlx4", "irdma, RoCE", "irdma, iWARP", "bnxt_re", "efa", "hns", "erdma", "mana", "ionic", "hfi1", "qedr",
		"cxgb4", "mthca", "vmw_pvrdma", "rxe", "siw",
	} {
		require.True(t, names[name], name)
	}
}

// The other drivers wait for the answer to a command uninterruptibly, or do not wait.
func TestCommandsOfTwoDriversAreInterruptible(t *testing.T) {
	var names []string
	for _, d := range All() {
		if d.Interruptible != "" {
			names = append(names, d.Name)
		}
	}
	require.Equal(t, []string{"ionic", "vmw_pvrdma"}, names)
}

func TestADatagramOfPVRDMAIsACommand(t *testing.T) {
	d, _ := Find("vmw_pvrdma", "infiniband")
	p := Pace{Probe: time.Second}.PerMinute("vmw_pvrdma", d.Costs)
	require.Equal(t, 60, p.Round[verbs.MethodUDSend], "its library queries the port for each address handle")
	require.Zero(t, p.Round[verbs.MethodRCWrite])
	require.Equal(t, 1, verbs.AddressHandleCommands("vmw_pvrdma"))
	require.Equal(t, 2, verbs.AddressHandleCommands("bnxt_en"))
	require.Zero(t, verbs.AddressHandleCommands("mlx5_core"))
}

// requireWholeFiles checks that the files and the costs of a row agree.
func requireWholeFiles(t *testing.T, d Driver) {
	t.Helper()
	f := d.Files
	require.Equal(t, f.HWCounters > 0, f.HWCounterQueries > 0, "%s: whoever has hw_counters is asked for them, by how many reads?", d.Name)
	require.LessOrEqual(t, f.HWCounterQueries, f.HWCounters, d.Name)
	require.LessOrEqual(t, f.Counters, 21, "%s: pma_attrs_ext has no more", d.Name)
	for _, costs := range []Costs{d.Costs, d.Ethernet} {
		if costs[HWCounter] > 0 {
			require.NotZero(t, f.HWCounters, d.Name)
		}
		if costs[LinkDowned] > 0 {
			require.NotZero(t, f.Counters, d.Name)
		}
		if costs[QueueStatistics] > 0 {
			require.NotZero(t, costs[Statistics], d.Name)
		}
	}
}

// A snapshot may cost 60 commands. An option enables the statistics, which cost more with one
// driver.
func TestASnapshotStaysWithinItsBound(t *testing.T) {
	const bound = 60
	above := map[string]int{}
	for _, d := range All() {
		for _, layer := range []verbs.LinkLayer{verbs.LinkInfiniBand, verbs.LinkEthernet} {
			c := d.On(layer)
			require.LessOrEqual(t, c.Of(d.Snapshot(verbs.EthtoolOff)), c.Of(d.Snapshot(verbs.EthtoolLink)), d.Name)
			require.LessOrEqual(t, c.Of(d.Snapshot(verbs.EthtoolLink)), bound, d.Name)
			if all := c.Of(d.Snapshot(verbs.EthtoolAll)); all > bound {
				above[d.Name] = all
			}
		}
	}
	require.Equal(t, map[string]int{"mlx5": 21 + 4 + 1 + 46}, above)
}

// With mlx5 the kernel does not keep the answer to the read of a file, so the plugin reads all
// counters at once by netlink.
func TestASnapshotOfMlx5AsksOnceForItsCounters(t *testing.T) {
	d, _ := Find("mlx5_core", "infiniband")
	asks := d.Snapshot(verbs.EthtoolLink)
	require.Equal(t, CallCounts{LinkDowned: 21, HWCounter: 1, LinkState: 1}, asks)
	asks[HWCounter] = d.Files.HWCounters
	require.Equal(t, 21+31*4+1, d.On(verbs.LinkEthernet).Of(asks), "through files")
}

func TestSnapshotsFollowThePace(t *testing.T) {
	mlx5, _ := Find("mlx5_core", "infiniband")
	c := mlx5.On(verbs.LinkEthernet)
	p := Pace{Snapshot: time.Minute, Triggered: 10}
	require.Equal(t, Snapshots{One: 25, Base: 25, Most: 11 * 25}, p.Snapshots(mlx5, c, verbs.EthtoolOff))
	require.Equal(t, Snapshots{One: 26, Base: 26, Most: 11 * 26}, p.Snapshots(mlx5, c, verbs.EthtoolLink))
	require.Equal(t, Snapshots{One: 72, Base: 72, Most: 11 * 72}, p.Snapshots(mlx5, c, verbs.EthtoolAll))
	require.Equal(t, Snapshots{One: 25, Base: 25, Most: 11 * 25}, p.Snapshots(mlx5, mlx5.On(verbs.LinkInfiniBand), verbs.EthtoolAll))
	p.Snapshot = 20 * time.Second
	require.Equal(t, Snapshots{One: 26, Base: 3 * 26, Most: 13 * 26}, p.Snapshots(mlx5, c, verbs.EthtoolLink))
	p.Snapshot = 0
	require.Equal(t, Snapshots{One: 26}, p.Snapshots(mlx5, c, verbs.EthtoolLink), "no snapshots, whatever happens")
}

func TestCommandsFollowThePace(t *testing.T) {
	mlx5, _ := Find("mlx5_core", "infiniband")
	costs := mlx5.On(verbs.LinkEthernet)
	slow := Pace{State: 10 * time.Second, Probe: 2 * time.Second}.PerMinute("mlx5_core", costs)
	require.Equal(t, 6*3, slow.State)
	require.Equal(t, 30*4, slow.Round[verbs.MethodFlush])
	require.Zero(t, slow.Round[verbs.MethodRCWrite])
	fast := Pace{State: 5 * time.Second, Probe: time.Second}.PerMinute("mlx5_core", costs)
	require.Equal(t, 12*3, fast.State)
	require.Equal(t, 60*4, fast.Round[verbs.MethodFlush])
	off := Pace{}.PerMinute("mlx5_core", costs)
	require.Zero(t, off.State+off.Round[verbs.MethodFlush])
	require.Equal(t, 6*4, Pace{Command: 10 * time.Second}.PerMinute("mlx5_core", costs).Checks)
	require.Equal(t, 6, Pace{Command: 10 * time.Second}.PerMinute("bnxt_en", Costs{HWCounter: 2, QueryQP: 1}).Checks)
	require.Equal(t, 12*6, Pace{State: 5 * time.Second}.PerMinute("mlx5_core", mlx5.On(verbs.LinkInfiniBand)).State)
}
