package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// withSMI returns a host with a sub-device that has no node.
func withSMI() tree {
	const smi = "sys/class/infiniband/smi0"
	return healthyTree().with(tree{smi + "/node_type": "1: CA\n", smi + "/device": "-> ../../../devices/0000:3b:00.0", smi + "/ports/1/state": "4: ACTIVE\n",
		smi + "/ports/1/link_layer": "InfiniBand\n", smi + "/ports/1/gids/0": mlx5GID + "\n", smi + "/ports/1/pkeys/0": "0xffff\n"})
}

// deviceProblems returns the results about a device that are not OK.
func (r *Report) deviceProblems(name string) (bad []Result) {
	for _, one := range r.Results {
		if one.Subject == name && one.Status != OK {
			bad = append(bad, one)
		}
	}
	return bad
}

func TestSMISubDeviceIsNoted(t *testing.T) {
	for name, types := range map[string]func() (map[string]hotplug.Type, error){
		"RDMA netlink names its parent": func() (map[string]hotplug.Type, error) {
			return map[string]hotplug.Type{"mlx5_0": {}, "smi0": {SMI: true, Parent: "mlx5_0"}}, nil
		},
		"RDMA netlink does not know it": func() (map[string]hotplug.Type, error) { return map[string]hotplug.Type{"mlx5_0": {}}, nil },
		"RDMA netlink is forbidden":     func() (map[string]hotplug.Type, error) { return nil, unix.EACCES },
	} {
		t.Run(name, func(t *testing.T) {
			w := workingWorker()
			s := newHost(t, withSMI(), w)
			s.Types = types
			r := Run(t.Context(), s)
			require.Equal(t, OK, r.Status, "%+v", r.Results)
			bad := r.deviceProblems("smi0")
			require.Len(t, bad, 2, "its node and its probes")
			for _, one := range bad {
				require.Equal(t, Skipped, one.Status)
				require.Contains(t, one.Text, "no program can open it")
				require.Empty(t, one.Fix)
			}
			require.Len(t, w.tried, 3, "the other device alone")
		})
	}
}

func TestDeviceWhoseNodeIsMissingIsAFailure(t *testing.T) {
	for name, types := range map[string]func() (map[string]hotplug.Type, error){
		"it is of no type":          func() (map[string]hotplug.Type, error) { return map[string]hotplug.Type{"mlx5_0": {}, "smi0": {}}, nil },
		"no descriptor is left":     func() (map[string]hotplug.Type, error) { return nil, unix.EMFILE },
		"the host has no more file": func() (map[string]hotplug.Type, error) { return nil, unix.ENFILE },
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(t, withSMI(), workingWorker())
			s.Types = types
			r := Run(t.Context(), s)
			require.Equal(t, Fail, r.Status)
			for _, one := range r.deviceProblems("smi0") {
				require.Equal(t, Fail, one.Status)
				require.NotContains(t, one.Fix.String(), "modprobe", "ib_uverbs is loaded")
			}
		})
	}
}

func TestDeviceWithoutAProviderThatNobodyUsesIsNoted(t *testing.T) {
	w := workingWorker()
	s := newHost(t, healthyTree().with(tree{"sys/devices/0000:3b:00.0/driver": "-> ../../bus/pci/drivers/i40e"}), w)
	noTrial(status.ReasonUnwatchable, "there is none for irdma")(s, w)
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Equal(t, []Result{{Check: "probes", Subject: "mlx5_0", Status: Skipped, Text: "not watched: there is none for irdma"}}, r.deviceProblems("mlx5_0"))
	require.Equal(t, []verbs.Method{verbs.MethodRCWrite}, w.tried)
}

func TestPortWithoutGIDsByDesignIsNoted(t *testing.T) {
	w := workingWorker()
	refused := openedTrial(inspect.PortTrial{Refused: "the port has no usable GID"})
	w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: refused, verbs.MethodUDSend: refused, verbs.MethodFlush: refused}
	r := Run(t.Context(), newHost(t, healthyTree().with(tree{port1 + "/gids": ""}), w))
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	for _, check := range []string{"addresses", "probes"} {
		require.Len(t, r.resultsOf(check), 1)
		require.Equal(t, Skipped, r.resultsOf(check)[0].Status)
		require.Contains(t, r.resultsOf(check)[0].Text, "GID")
		require.Empty(t, r.resultsOf(check)[0].Fix)
	}
}

func TestPortWithoutGIDsInABondWithAnAddressIsAWarning(t *testing.T) {
	files := tree{port1 + "/gids": "", "sys/devices/card/net/eth0/master": "-> ../../../../class/net/bond0", "sys/class/net/bond0/bonding/slaves": "eth0\n"}
	s := newHost(t, healthyTree().with(files), workingWorker())
	s.HasAddress = func(netdev string) bool { return netdev == "bond0" }
	r := Run(t.Context(), s)
	require.Equal(t, Warn, r.resultsOf("addresses")[0].Status)
}

func TestNoHostIsProbedFromAPortWithoutGIDs(t *testing.T) {
	const none = "0000:0000:0000:0000:0000:0000:0000:0000\n"
	files, c, _ := probingFixture()
	s, _ := probingHost(t, files.with(tree{port1 + "/gids/0": none, port1 + "/gids/1": none}), c)
	r := Run(t.Context(), s)
	require.Equal(t, Skipped, r.resultsOf("fabric_addresses")[0].Status)
	s.HasAddress = func(string) bool { return true }
	r = Run(t.Context(), s)
	require.Equal(t, Fail, r.resultsOf("fabric_addresses")[0].Status)
	require.Contains(t, r.resultsOf("fabric_addresses")[0].Fix.String(), "enable_roce")
}
