package drivers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/verbs"
)

func TestDeviceFindsItsRow(t *testing.T) {
	for _, c := range []struct{ kernel, transport, want string }{
		{"mlx5_core", "infiniband", "mlx5"},
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
		require.Equal(t, len(d.Standin) > 0, d.Known == ByStandin, d.Name)
		for _, costs := range []Costs{d.Costs, d.Ethernet} {
			for call := range costs {
				require.Contains(t, calls, call, d.Name)
			}
		}
		for _, kernel := range d.Kernel {
			require.Equal(t, d.Events == "none", !verbs.DriverRaisesEvents(kernel), d.Name)
			if d.Transport != "iwarp" { // iWARP has no handles, and shares its kernel driver with RoCE
				require.Equal(t, d.Costs[CreateAH] > 0, verbs.HandleIsCommand(kernel), "%s: %s", d.Name, kernel)
			}
			for call, cost := range map[verbs.CommandCall]Call{
				verbs.CommandHWCounters: HWCounter, verbs.CommandQueryPort: PortQuery, verbs.CommandQueryQP: QueryQP,
			} {
				frozen := d.Name == "bnxt_re" && call == verbs.CommandHWCounters
				require.Equal(t, d.Costs[cost] > 0 && !frozen, verbs.CommandsOf(kernel).Has(call), "%s: %s: %v", d.Name, kernel, call)
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
	require.Equal(t, 6*4, Pace{Command: 10 * time.Second}.PerMinute("mlx5_core", costs).Asked)
	require.Equal(t, 6, Pace{Command: 10 * time.Second}.PerMinute("bnxt_en", Costs{HWCounter: 2, QueryQP: 1}).Asked)
	require.Equal(t, 12*6, Pace{State: 5 * time.Second}.PerMinute("mlx5_core", mlx5.On(verbs.LinkInfiniBand)).State)
}
