package advice

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachRowIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Commands() {
		row := c.Row()
		require.NotEmpty(t, row.Form, "command %d", c)
		require.False(t, seen[row.Form], row.Form)
		seen[row.Form] = true
		if !row.Changes {
			require.Empty(t, row.Risk, row.Form)
		}
		found, ok := Find(row.Form)
		require.True(t, ok, row.Form)
		require.Equal(t, row.Form, found.Row().Form)
	}
}

// No row may disturb a fabric or create what a host lacks by design. Commands with a nested shell are forbidden too,
// because they could hide such a command.
func TestNoCommandDisturbsAFabric(t *testing.T) {
	for _, c := range Commands() {
		form := c.Row().Form
		for _, forbidden := range []string{
			"opensm", "{port} enable", "{port} disable", "{port} reset", "ibdiagnet", "iblinkinfo", "perfquery -R",
			"ip addr add", "address add", "rdma link add", "rxe", "siw", "netns shared", "netns exclusive", "rmmod", "modprobe -r", "mlxfwreset",
			"mlxconfig", "reboot", "eval", "$(", "`", " -y",
		} {
			require.NotContains(t, form, forbidden)
		}
	}
}

func TestCommandIsFoundInWhatIsTyped(t *testing.T) {
	for text, want := range map[string]Command{
		"modprobe ib_uverbs":                               LoadVerbs,
		"sudo modprobe mlx5_ib":                            LoadDriver,
		`sudo sh -c "dmesg | tail"`:                        ShowKernelLog,
		"dmesg | grep 0000:3b:00.0":                        ShowKernelLogOf,
		"devlink health show":                              ShowHealth,
		"devlink health show pci/0000:3b:00.0":             ShowHealthOf,
		"docker run --pid=host --cap-add=BPF IMAGE":        GiveContainerCapabilities,
		RaiseLimit.Line("LimitMEMLOCK=8M").For(7).String(): RaiseLimit,
		RaiseLimit.Line("CapabilityBoundingSet=CAP_BPF CAP_PERFMON").For(7).String():               RaiseLimit,
		MakeNode.Line("uverbs0", "231", "192").For(7).String():                                     MakeNode,
		GiveCapabilities.Line("/usr/bin/rdma-events-tracer", "cap_bpf").For(7).String():            GiveCapabilities,
		TryTracer.Line("/usr/bin/rdma-events-tracer").For(0).String():                              TryTracer,
		LiftCgroupLimit.Line("mlx5_0", "hca_handle", "/sys/fs/cgroup/rdma.max").For(1000).String(): LiftCgroupLimit,
	} {
		got, ok := Find(text)
		require.True(t, ok, text)
		require.Equal(t, want.Row().Form, got.Row().Form, text)
	}
	for _, text := range []string{
		"", "opensm", "rdma system set netns shared", "ip addr add ADDRESS/PREFIX dev eth0", "rdma link add rxe0 type rxe netdev eth0",
		"modprobe mlx5_ib && opensm", "modprobe mlx5_ib; opensm", "sudo sh -c \"dmesg | tail; opensm\"", "systemctl stop telegraf",
		"modprobe -r", "ethtool -r", "ip link set dev eth0 down",
	} {
		_, ok := Find(text)
		require.False(t, ok, text)
	}
}

func TestCommandsAreTypedAsTheUserHasTo(t *testing.T) {
	require.Equal(t, "sudo modprobe ib_uverbs", LoadVerbs.Line().For(1000).String())
	require.Equal(t, `sudo sh -c "dmesg | tail"`, ShowKernelLog.Line().For(1000).String())
	require.Equal(t, "dmesg | tail", ShowKernelLog.Line().For(0).String())
	require.Equal(t, "sudoedit /etc/x", EditFile.Line("/etc/x").For(1000).String())
	require.Equal(t, "sudo ibportstate -C mlx5_0 -P 2 -D 0 2 query", ShowPortSettings.Line("mlx5_0", "2").For(1000).String())
	require.True(t, Line{}.For(1000).IsZero())
	require.Panics(t, func() { BringUp.Line() })
	require.Panics(t, func() { LoadVerbs.Line("x") })
}
