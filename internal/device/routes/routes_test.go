package routes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	head   = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	subnet = "eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
	reject = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 " +
		"00200200       lo\n"
)

func ipv4DefaultRoute(netdev string) string {
	return netdev + "\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
}

func ipv6DefaultRoute(netdev string) string {
	return "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 " +
		"00000003 " + netdev + "\n"
}

func TestDefaultRouteIsFoundBelowBondsBridgesAndVLANs(t *testing.T) {
	for name, row := range map[string]struct {
		ipv4, ipv6 string
		lower      map[string][]string
		want       bool
	}{
		"its own":              {ipv4: head + subnet + ipv4DefaultRoute("eth0"), want: true},
		"of another":           {ipv4: head + subnet + ipv4DefaultRoute("eth1")},
		"a subnet alone":       {ipv4: head + subnet},
		"IPv6 alone":           {ipv4: head, ipv6: reject + ipv6DefaultRoute("eth0"), want: true},
		"a route that rejects": {ipv4: head, ipv6: reject},
		"a bond":               {ipv4: head + ipv4DefaultRoute("bond0"), lower: map[string][]string{"bond0": {"eth0", "eth1"}}, want: true},
		"a VLAN on a bridge on a bond": {
			ipv4: head + ipv4DefaultRoute("br0.7"), lower: map[string][]string{"br0.7": {"br0"}, "br0": {"tap0", "bond0"}, "bond0": {"eth1", "eth0"}}, want: true,
		},
		"another bond": {ipv4: head + ipv4DefaultRoute("bond0"), lower: map[string][]string{"bond0": {"eth1"}, "bond1": {"eth0"}}},
		"a loop":       {ipv4: head + ipv4DefaultRoute("a"), lower: map[string][]string{"a": {"b"}, "b": {"a"}}},
		"no tables":    {},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(path, text string) {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
			}
			if row.ipv4 != "" {
				write("proc/net/route", row.ipv4)
			}
			if row.ipv6 != "" {
				write("proc/net/ipv6_route", row.ipv6)
			}
			for upper, all := range row.lower {
				for _, lower := range all {
					write("sys/class/net/"+upper+"/lower_"+lower, "")
				}
			}
			require.Equal(t, row.want, Table{Proc: filepath.Join(root, "proc"), Sysfs: filepath.Join(root, "sys")}.CarriesDefault("eth0"))
		})
	}
}
