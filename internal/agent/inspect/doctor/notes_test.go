package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/verbs"
)

func TestANoteOnALinkIsNoFault(t *testing.T) {
	for _, tt := range []struct {
		name string
		link ethtool.Link
		err  error
		want Result
	}{
		{"a link", ethtool.Link{Up: true, HasUp: true}, nil, Result{Text: "ethtool netlink answers: there is a link"}},
		{"a reason", ethtool.Link{HasUp: true, ExtState: "no_cable"}, nil,
			Result{Text: "its driver says why there is no link: no_cable"}},
		{"a reason with more", ethtool.Link{HasUp: true, ExtState: "autoneg", ExtSubstate: "no_partner_detected"}, nil,
			Result{Text: "its driver says why there is no link: autoneg no_partner_detected"}},
		{"no reason", ethtool.Link{HasUp: true}, nil,
			Result{Status: Skipped, Text: "there is no link, and its driver does not say why, or it is administratively down"}},
		{"no answer", ethtool.Link{}, errors.New("no answer\nwithin 2s"),
			Result{Status: Skipped, Text: "snapshots will not contain the reason why a link is lost: no answer within 2s"}},
	} {
		w := workingWorker()
		w.link, w.linkErr = tt.link, tt.err
		r := Run(t.Context(), newHost(t, healthyTree(), w))
		tt.want.Check, tt.want.Subject = "ext_state", "eth0"
		require.Equal(t, []Result{tt.want}, r.resultsOf("ext_state"), tt.name)
		require.Equal(t, OK, r.Status, tt.name)
		require.Equal(t, []string{"eth0"}, w.asked, tt.name)
	}
}

// All network devices share the lock for which one call waits.
func TestAfterACallThatFailedNoOtherLinkIsAskedFor(t *testing.T) {
	const second = "sys/class/infiniband/mlx5_1"
	two := healthyTree().with(tree{
		second + "/node_type": "1: CA\n", second + "/ports/1/state": "4: ACTIVE\n", second + "/ports/1/phys_state": "5: LinkUp\n",
		second + "/ports/1/gid_attrs/ndevs/0": "eth1\n", second + "/device/x": "\n",
		"sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1\n", "sys/class/infiniband_verbs/uverbs1/dev": "231:193\n",
	})
	for _, tt := range []struct {
		err  error
		want []string
	}{{nil, []string{"eth0", "eth1"}}, {errors.New("no answer within 2s"), []string{"eth0"}}} {
		w := workingWorker()
		w.linkErr = tt.err
		r := Run(t.Context(), newHost(t, two, w))
		require.Equal(t, tt.want, w.asked)
		require.Len(t, r.resultsOf("ext_state"), len(tt.want))
		require.NotEmpty(t, r.resultsOf("dmesg_restrict"), "the other checks go on")
	}
}

func TestAPortWithoutANetworkDeviceIsNotAskedFor(t *testing.T) {
	w := workingWorker()
	r := Run(t.Context(), newHost(t, healthyTree().with(tree{port1 + "/gid_attrs": "", "sys/devices/0000:3b:00.0/net": ""}), w))
	require.Empty(t, w.asked)
	require.Equal(t, Skipped, r.resultsOf("ext_state")[0].Status)
}

// A card that hangs would hold the lock that all network devices share.
func TestTheLinkOfADeviceThatCannotBeOpenedIsNotAskedFor(t *testing.T) {
	w := workingWorker()
	w.trials[verbs.MethodRCWrite] = inspect.Trial{Why: "no answer"}
	r := Run(t.Context(), newHost(t, healthyTree(), w))
	require.Empty(t, w.asked)
	require.Equal(t, Skipped, r.resultsOf("ext_state")[0].Status)
}

func TestANoteSaysWhetherThisUserMayReadTheKernelsLines(t *testing.T) {
	s := newHost(t, healthyTree().with(tree{"proc/sys/kernel/dmesg_restrict": "1\n"}), workingWorker())
	s.KernelLog = func() error { return unix.EPERM }
	r := Run(t.Context(), s)
	require.Equal(t, []Result{{Check: "dmesg_restrict", Status: Skipped, Text: "rdma-events report does not include the kernel log if this " +
		"user runs it: operation not permitted; kernel.dmesg_restrict is 1, so only root or CAP_SYSLOG may read it"}}, r.resultsOf("dmesg_restrict"))
	require.Equal(t, OK, r.Status)
}
