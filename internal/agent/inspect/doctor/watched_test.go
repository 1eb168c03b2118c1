package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// hostWithPortsDown returns a host with a port that is administratively down and a second port without a link.
func hostWithPortsDown() tree {
	const port2 = class + "/ports/2"
	return healthyTree().with(tree{
		port1 + "/state": "1: DOWN\n", port1 + "/phys_state": "3: Disabled\n", port1 + "/gids": "", port1 + "/gid_attrs": "",
		port2 + "/state": "1: DOWN\n", port2 + "/phys_state": "2: Polling\n", port2 + "/link_layer": "Ethernet\n", port2 + "/pkeys/0": "0xffff\n",
	})
}

// nothingWorks makes each method fail on two ports.
func nothingWorks(w *fakeWorker) {
	refused := inspect.PortTrial{Refused: "the port is not active"}
	for m := range w.trials {
		w.trials[m] = inspect.Trial{Opened: true, Attr: verbs.DeviceAttr{Ports: 2}, Ports: map[int]inspect.PortTrial{1: refused, 2: refused}}
	}
}

func TestPortsThatMayBeDownOrAreNotWatchedNeedNoRepair(t *testing.T) {
	w := workingWorker()
	nothingWorks(w)
	s := newHost(t, hostWithPortsDown(), w)
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) {
		return PluginConfig{
			WatchesPort:  func(_ string, port int) bool { return port == 1 },
			ExpectedDown: func(_ string, port int) bool { return port == 1 },
		}, nil
	}
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Equal(t, []Result{{Check: "not_watched", Status: Skipped, Text: "mlx5_0:2: left out by ports"}}, r.resultsOf("not_watched"))
	for _, one := range r.Results {
		require.NotEqual(t, "mlx5_0 port 2", one.Subject, "%+v", one)
		require.Empty(t, one.Fix)
	}
	require.Len(t, r.resultsOf("probes"), 1)
	require.Equal(t, Skipped, r.resultsOf("probes")[0].Status)
	require.Contains(t, r.resultsOf("probes")[0].Text, "expected_down")
}

func TestNodeThatCannotBeOpenedHasOneRepair(t *testing.T) {
	for name, c := range map[string]struct {
		err    unix.Errno
		reason status.Reason
		want   string
	}{
		"the file is missing, and the library lists no device": {unix.ENOENT, status.ReasonUnsupported, "mknod -m 0666 /dev/infiniband/uverbs0"},
		"the device cgroup refuses it":                         {unix.EPERM, status.ReasonNoPermission, "--device-cgroup-rule"},
		"another user has it":                                  {unix.EACCES, status.ReasonNoPermission, "chmod 0666 /dev/infiniband/uverbs0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := workingWorker()
			s := newHost(t, healthyTree(), w)
			noTrial(c.reason, "libibverbs lists 0 devices")(s, w)
			nodeError(c.err)(s, w)
			r := Run(t.Context(), s)
			require.Len(t, r.resultsOf("device_nodes"), 1)
			require.Contains(t, r.resultsOf("device_nodes")[0].Fix.String(), c.want)
			require.Len(t, r.resultsOf("probes"), 1)
			require.Equal(t, r.resultsOf("device_nodes")[0].Fix, r.resultsOf("probes")[0].Fix)
		})
	}
}

func TestDeviceThatFailedIsNotOneToLeaveOut(t *testing.T) {
	for name, c := range map[string]struct {
		files tree
		query string
	}{
		"its state ends with EIO": {files: tree{port1 + "/state": "-> /proc/self/mem"}}, // its first page answers EIO
		"its query ends with EIO": {query: "EIO"},
	} {
		t.Run(name, func(t *testing.T) {
			w := workingWorker()
			if c.query != "" {
				w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: openedTrial(inspect.PortTrial{Query: c.query, Refused: "input/output error"})}
			}
			r := Run(t.Context(), newHost(t, healthyTree().with(c.files), w))
			require.Equal(t, Warn, r.Status, "%+v", r.Results)
			for _, one := range r.Results {
				require.NotContains(t, one.Text+one.Fix.String(), "devices_exclude")
				if one.Status == Warn {
					require.Contains(t, one.Fix.String(), "dmesg | grep 0000:3b:00.0")
				}
			}
		})
	}
}

func TestFlushThatLosesItsEventAloneIsNoFault(t *testing.T) {
	lost := inspect.PortTrial{Rounds: []verbs.Round{{Outcome: verbs.OutcomeLostEvent, Status: "timeout"}}}
	w := workingWorker()
	w.trials[verbs.MethodFlush] = openedTrial(lost)
	r := Run(t.Context(), newHost(t, healthyTree(), w))
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Contains(t, r.resultsOf("probes")[0].Text, "flush ends as lost_event")

	w = workingWorker()
	w.trials[verbs.MethodRCWrite] = openedTrial(lost)
	r = Run(t.Context(), newHost(t, healthyTree(), w))
	require.Equal(t, Fail, r.resultsOf("probes")[0].Status, "the other methods do not lose their events")
}

func TestCardThatNobodyUsesIsNotedBesideOthers(t *testing.T) {
	files := tree{"sys/bus/pci/drivers/ice/0000:af:00.0/x": "\n"}
	r := Run(t.Context(), newHost(t, healthyTree().with(files), workingWorker()))
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	one := r.resultsOf("kernel_modules")[0]
	require.Equal(t, Skipped, one.Status)
	require.Contains(t, one.Text, "irdma, which creates their RDMA devices, is not loaded: they are not watched")

	r = Run(t.Context(), newHost(t, healthyTree().with(files).with(tree{class: "", "sys/class/infiniband_verbs": ""}), workingWorker()))
	require.Equal(t, Warn, r.resultsOf("kernel_modules")[0].Status)
	require.Equal(t, "sudo modprobe irdma", r.resultsOf("kernel_modules")[0].Fix.String())
}
