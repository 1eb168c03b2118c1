package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// fourAlike returns a host with four ports of one board type. mlx5_3 has a quarter of the rate of the others.
func fourAlike() tree {
	files := healthyTree().with(tree{
		class + "/board_id":    "MT_0000000223\n",
		port1 + "/rate":        "400 Gb/sec (4X NDR)\n",
		"proc/net/route":       "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n",
		class + "/ports/2/x":   "",
		"sys/class/net/eth3/x": "\n",
	})
	for i := 1; i < 4; i++ {
		rate := "400 Gb/sec (4X NDR)\n"
		if i == 3 {
			rate = "100 Gb/sec (4X EDR)\n"
		}
		device := fmt.Sprintf("sys/class/infiniband/mlx5_%d", i)
		card := fmt.Sprintf("sys/devices/0000:3b:00.%d", i)
		files = files.with(tree{
			device + "/device": fmt.Sprintf("-> ../../../devices/0000:3b:00.%d", i), card + "/driver": "-> ../../bus/pci/drivers/mlx5_core",
			device + "/node_type": "1: CA\n", device + "/board_id": "MT_0000000223\n",
			device + "/ports/1/state": "4: ACTIVE\n", device + "/ports/1/phys_state": "5: LinkUp\n", device + "/ports/1/rate": rate,
			device + "/ports/1/link_layer": "Ethernet\n", device + "/ports/1/lid": "0x0\n",
			device + "/ports/1/gids/0":            fmt.Sprintf("fe80:0000:0000:0000:0a00:27ff:fe00:000%d\n", i+1),
			device + "/ports/1/gid_attrs/types/0": "RoCE v2\n", device + "/ports/1/gid_attrs/ndevs/0": fmt.Sprintf("eth%d\n", i),
			device + "/ports/1/pkeys/0":                                 "0xffff\n",
			device + "/ports/1/hw_counters/duplicate_request":           "0\n",
			fmt.Sprintf("sys/class/infiniband_verbs/uverbs%d/ibdev", i): fmt.Sprintf("mlx5_%d\n", i),
			fmt.Sprintf("sys/class/infiniband_verbs/uverbs%d/dev", i):   fmt.Sprintf("231:%d\n", 192+i),
			fmt.Sprintf("sys/class/net/eth%d/mtu", i):                   "9000\n",
		})
	}
	return files
}

// portOf returns the result of the check "ports" about a port.
func portOf(t *testing.T, r *Report, port string) Result {
	t.Helper()
	for _, one := range r.resultsOf("ports") {
		if one.Subject == port {
			return one
		}
	}
	require.Fail(t, "no finding", port)
	return Result{}
}

func TestRatesAreComparedWithinARole(t *testing.T) {
	const slow = "mlx5_3 port 1"
	for name, c := range map[string]struct {
		carries string // the network device of the default route
		role    func(device string, port int) string
		want    Status
	}{
		"a port like the others":                 {want: Warn},
		"the port of the default route":          {carries: "eth3", want: OK},
		"a faster port has the default route":    {carries: "eth0", want: Warn},
		"management by the configuration":        {role: roleOf("mlx5_3", verbs.RoleManagement), want: OK},
		"storage by the configuration":           {role: roleOf("mlx5_3", verbs.RoleStorage), want: OK},
		"all for computing, with the route too":  {role: roleOf("", verbs.RoleCompute), carries: "eth3", want: Warn},
		"another one is for management as well":  {role: roleOf("mlx5_0", verbs.RoleManagement), want: Warn},
		"the route goes over no RDMA device":     {carries: "eno1", want: Warn},
		"another device's role says nothing new": {role: roleOf("mlx5_8", verbs.RoleStorage), want: Warn},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(t, fourAlike(), workingWorker())
			s.CarriesDefaultRoute = func(netdev string) bool { return netdev == c.carries }
			s.Config = "/etc/telegraf/rdma_events.conf"
			s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{Role: c.role}, nil }
			r := Run(t.Context(), s)
			one := portOf(t, &r, slow)
			require.Equal(t, c.want, one.Status, "%+v", one)
			if c.want == Warn {
				require.Contains(t, one.Text, "400 Gb/s")
			}
		})
	}
}

// roleOf returns a function that gives a role to one device, or to all devices for "".
func roleOf(device, role string) func(string, int) string {
	return func(name string, _ int) string {
		if device == "" || name == device {
			return role
		}
		return ""
	}
}

func TestPortBelowItsConfiguredRateIsAWarning(t *testing.T) {
	s := newHost(t, healthyTree(), workingWorker())
	s.Config = "/etc/telegraf/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) {
		return PluginConfig{ExpectedRate: func(device string, port int) float64 { return 400 }}, nil
	}
	r := Run(t.Context(), s)
	one := portOf(t, &r, "mlx5_0 port 1")
	require.Equal(t, Warn, one.Status)
	require.Contains(t, one.Text, "active, 100 Gb/s")
	require.Contains(t, one.Text, "the configuration expects 400 Gb/s")
}
