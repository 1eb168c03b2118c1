package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func TestAHealthyHostIsOKThroughout(t *testing.T) {
	w := workingWorker()
	s := newHost(t, healthyTree(), w)
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	r := Run(t.Context(), s)
	for _, one := range r.Results {
		require.Equal(t, OK, one.Status, "%+v", one)
		require.Empty(t, one.Fix)
	}
	require.Equal(t, OK, r.Status)
	require.True(t, w.closed)
	require.Equal(t, []Result{{Check: "probes", Subject: "mlx5_0 port 1",
		Text: "rc_write works (wake-up 50µs); flush works (wake-up 60µs); ud_send cannot: the port has no usable GID"}}, r.resultsOf("probes"))
	require.Equal(t, "active, 100 Gb/s (4x), Ethernet on eth0", r.resultsOf("ports")[0].Text)
	require.Equal(t, "1 GIDs, probes use index 0 (fe80::a00:27ff:fe00:1); P_Key index 0", r.resultsOf("addresses")[0].Text)
	require.Equal(t, "version 44.0 (/usr/lib/libibverbs.so.1); it has no provider for ionic (from release 61 on)", r.resultsOf("libibverbs")[0].Text)
	require.Equal(t, "installed: mlx5 44.0, rxe (ABI rdmav34)", r.resultsOf("providers")[0].Text)
}

func TestDevicesThatPodsBorrowedNeedNoRepair(t *testing.T) {
	s := newHost(t, healthyTree().with(tree{
		"sys/module/ib_core/parameters/netns_mode": "N\n",
		"sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1\n", "sys/class/infiniband_verbs/uverbs2/ibdev": "mlx5_2\n",
	}), workingWorker())
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Len(t, r.resultsOf("network_namespace"), 1)
	one := r.resultsOf("network_namespace")[0]
	require.Contains(t, one.Text, "exclusive: mlx5_1, mlx5_2 are in another network namespace")
	require.Empty(t, one.Fix)
}

// Each row breaks one thing on the healthy host, and one check must report it.
func TestProblemIsReportedWithItsFix(t *testing.T) {
	const edit = "sudoedit /etc/telegraf/telegraf.d/rdma_events.conf"
	config := func(text string) tree { return tree{"etc/telegraf/telegraf.d/rdma_events.conf": text} }
	memlock := "LimitMEMLOCK=8M"
	for _, tt := range []struct {
		name   string
		files  tree
		change func(*System, *fakeWorker)
		want   finding // Text and Fix are parts of the reported ones
	}{
		{
			"no device", tree{class: "", "sys/class/infiniband_verbs": "", "sys/bus": ""}, nil,
			finding{"kernel_modules", "", Warn, "this host has no RDMA device", "lspci -nn"},
		},
		{
			"a card whose RDMA part is not loaded", tree{class: "", "sys/module/mlx5_ib": ""}, nil,
			finding{"kernel_modules", "", Warn, "mlx5_ib, which creates their RDMA devices, is not loaded", "sudo modprobe mlx5_ib"},
		},
		{
			"a card without a driver", tree{
				"sys/bus/pci/devices/0000:5e:00.0/class": "0x020000\n", "sys/bus/pci/devices/0000:5e:00.0/vendor": "0x15b3\n",
				"sys/bus/pci/devices/0000:5e:00.0/device": "0x1021\n", "sys/bus/pci/devices/0000:5e:00.0/modalias": "pci:v000015B3d00001021\n",
			}, nil,
			finding{"kernel_modules", "0000:5e:00.0", Warn, "this network card (15b3:1021) has no driver", "sudo modprobe pci:v000015B3d00001021"},
		},
		{
			"no ib_uverbs", tree{"sys/class/infiniband_verbs": ""}, nil,
			finding{"kernel_modules", "", Fail, "ib_uverbs is not loaded", "sudo modprobe ib_uverbs"},
		},
		{
			"no node", tree{"sys/class/infiniband_verbs/uverbs0": ""}, nil,
			finding{"device_nodes", "mlx5_0", Fail, "it has no uverbs node", "sudo sh -c \"dmesg | tail\""},
		},
		{
			"a node of another user", nil, nodeError(unix.EACCES),
			finding{"device_nodes", "mlx5_0", Fail, "user 998 may not read and write /dev/infiniband/uverbs0", "sudo chmod 0666 /dev/infiniband/uverbs0"},
		},
		{
			"no node file", nil, nodeError(unix.ENOENT),
			finding{"device_nodes", "mlx5_0", Fail, "/dev/infiniband/uverbs0 is missing", "mknod -m 0666 /dev/infiniband/uverbs0 c 231 192"},
		},
		{
			"no node file in a container", tree{".dockerenv": "\n"}, nodeError(unix.ENOENT),
			finding{"device_nodes", "mlx5_0", Fail, "is missing", "docker run --device /dev/infiniband IMAGE"},
		},
		{
			"a device cgroup that refuses", tree{"run/systemd/container": "docker\n"}, nodeError(unix.EPERM),
			finding{"device_nodes", "mlx5_0", Fail, "refused by the kernel", "--device-cgroup-rule 'c 231:* rw'"},
		},
		{
			"a driver that answers nonsense", nil, nodeError(unix.EIO),
			finding{"device_nodes", "mlx5_0", Fail, "input/output error", "sudo sh -c \"dmesg | tail\""},
		},
		{
			"no library", nil, func(_ *System, w *fakeWorker) { w.libraryErr = errors.New("libibverbs is not usable: no such file") },
			finding{"libibverbs", "", Fail, "no such file", "sudo apt-get install libibverbs1 ibverbs-providers"},
		},
		{
			"no library on Red Hat", tree{"etc/os-release": "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"},
			func(_ *System, w *fakeWorker) { w.libraryErr = errors.New("no such file") },
			finding{"libibverbs", "", Fail, "no such file", "sudo dnf install libibverbs"},
		},
		{
			"an old library", tree{"usr/lib/libibverbs.so.1": "-> libibverbs.so.1.5.22.1"}, nil,
			finding{"libibverbs", "", Warn, "version 22.1 (/usr/lib/libibverbs.so.1), older than 28", "apt-get install"},
		},
		{
			"no providers", tree{libs: ""}, nil,
			finding{"providers", "", Fail, "no provider library is installed", "ibverbs-providers"},
		},
		{
			"not the right provider", tree{libs + "/libmlx5-rdmav34.so": ""}, noTrial(status.ReasonUnsupported, "libibverbs lists 0 devices"),
			finding{"providers", "mlx5_0", Fail, "mlx5_core needs the provider library of mlx5", "ibverbs-providers"},
		},
		{
			"a provider that is newer than the library", tree{"sys/devices/0000:3b:00.0/driver": "-> ../../bus/pci/drivers/ionic"},
			noTrial(status.ReasonUnsupported, "libibverbs lists 0 devices"),
			finding{"providers", "mlx5_0", Fail, "ionic, which rdma-core contains from release 61 on, but here is 44.0", "ibverbs-providers"},
		},
		{
			"too little lockable memory", nil, func(s *System, _ *fakeWorker) { s.LockedMemory = 32 << 10 },
			finding{"locked_memory", "", Fail, "the limit is 32 KiB, but the probes of one hardware device pin up to 64 KiB", memlock},
		},
		{
			"no device in this network namespace", tree{"sys/module/ib_core/parameters/netns_mode": "N\n", "sys/class/infiniband": ""}, nil,
			finding{"network_namespace", "", Warn, "exclusive: mlx5_0 cannot be watched", "sudo ip -all netns exec rdma dev"},
		},
		{
			"few files", nil, func(s *System, _ *fakeWorker) { s.OpenFiles = 64 },
			finding{"container_limits", "", Fail, "64 files may be open, but 1 devices need 76", "LimitNOFILE=4096"},
		},
		{
			"a user namespace", tree{"proc/self/uid_map": "0 100000 65536\n"}, nil,
			finding{"container_limits", "", Warn, "to a user namespace", "--userns=host"},
		},
		{
			"a full rdma cgroup", tree{cgroup + "/rdma.max": "mlx5_0 hca_handle=1 hca_object=2000\n"}, nil,
			finding{"container_limits", "mlx5_0", Fail, "allows 1 hca_handle, of which 1 are in use", "echo 'mlx5_0 hca_handle=max' >/" + cgroup + "/rdma.max"},
		},
		{
			"a disabled port", tree{port1 + "/state": "1: DOWN\n", port1 + "/phys_state": "3: Disabled\n"}, nil,
			finding{"ports", "mlx5_0 port 1", Warn, "down (Disabled): its network device eth0 is down", "sudo ip link set dev eth0 up"},
		},
		{
			"firmware that refuses queries", tree{port1 + "/state": "-> /sys/class/net/lo/speed"}, nil, // it has none, and answers EINVAL
			finding{"ports", "mlx5_0 port 1", Warn, "refuses state (EINVAL), as on a restricted function", edit},
		},
		{
			"firmware that refuses queries of a port", nil, func(_ *System, w *fakeWorker) {
				w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: openedTrial(inspect.PortTrial{Query: "EINVAL", Refused: "invalid argument"})}
			},
			finding{"probes", "mlx5_0 port 1", Warn, "refuses ibv_query_port (EINVAL), as on a restricted function", "sudoedit"},
		},
		{
			"firmware that refuses counters", tree{port1 + "/counters/link_downed": "-> /sys/class/net/lo/speed"}, nil,
			finding{"ports", "mlx5_0 port 1", Warn, "add mlx5_0 to devices_exclude", "sudoedit"},
		},
		{
			"a port without a cable", tree{port1 + "/state": "1: DOWN\n", port1 + "/phys_state": "2: Polling\n", port1 + "/gid_attrs": ""}, nil,
			finding{"ports", "mlx5_0 port 1", Warn, "look at cable", "sudo ethtool eth0"},
		},
		{
			"a fabric without a manager", tree{port1 + "/state": "2: INIT\n", port1 + "/link_layer": "InfiniBand\n"}, nil,
			finding{"ports", "mlx5_0 port 1", Warn, "the fabric's subnet manager has not brought the port up", "sudo sminfo -C mlx5_0 -P 1"},
		},
		{
			"no GID of an address", tree{port1 + "/gids": ""}, func(s *System, _ *fakeWorker) { s.HasAddress = func(n string) bool { return n == "eth0" } },
			finding{
				"addresses", "mlx5_0 port 1", Warn, "no usable GID, although the port is active and eth0 has an address",
				"sudo devlink dev param show pci/0000:3b:00.0 name enable_roce",
			},
		},
		{
			"no GID of the driver's making", tree{port1 + "/gids": "", "sys/devices/0000:3b:00.0/driver": "-> ../../bus/pci/drivers/ice"},
			func(s *System, _ *fakeWorker) { s.HasAddress = func(string) bool { return true } },
			finding{"addresses", "mlx5_0 port 1", Warn, "no usable GID", "dmesg"},
		},
		{
			"no GID on InfiniBand", tree{port1 + "/gids": "", port1 + "/link_layer": "InfiniBand\n"}, nil,
			finding{"addresses", "mlx5_0 port 1", Warn, "no usable GID, although the port is active", "dmesg"},
		},
		{
			"limited membership", tree{port1 + "/link_layer": "InfiniBand\n", port1 + "/pkeys/0": "0x7fff\n"}, nil,
			finding{"addresses", "mlx5_0 port 1", Warn, "limited membership", "grep . /" + port1 + "/pkeys/*"},
		},
		{
			"a lost interrupt", nil, func(_ *System, w *fakeWorker) {
				lost := inspect.PortTrial{Rounds: []verbs.Round{{Outcome: verbs.OutcomeLostEvent, Status: "timeout"}}}
				w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: openedTrial(lost)}
			},
			finding{"probes", "mlx5_0 port 1", Fail, "rc_write ends as lost_event timeout", "grep -e 0000:3b:00.0 /proc/interrupts"},
		},
		{
			"no method on an active port", nil, func(_ *System, w *fakeWorker) {
				w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: openedTrial(inspect.PortTrial{Refused: "no queue pair"})}
			},
			finding{"probes", "mlx5_0 port 1", Fail, "none works: rc_write cannot: no queue pair", "dmesg"},
		},
		{
			"no method on a port that is down", tree{port1 + "/state": "1: DOWN\n", port1 + "/phys_state": "3: Disabled\n"},
			func(_ *System, w *fakeWorker) {
				w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: openedTrial(inspect.PortTrial{Refused: "on a port that is down"})}
			},
			finding{"probes", "mlx5_0 port 1", Warn, "none works while the port is not active", "ip link set dev eth0 up"},
		},
		{
			"no permission", nil, noTrial(status.ReasonNoPermission, "permission denied"),
			finding{"probes", "mlx5_0", Fail, "permission denied", "sudo chmod 0666 /dev/infiniband/uverbs0"},
		},
		{
			"a worker that says nothing", nil, noTrial("", ""),
			finding{"probes", "mlx5_0", Fail, "the worker did not answer within 10s", "dmesg"},
		},
		{
			"a driver without events", tree{"sys/devices/0000:3b:00.0/driver": "-> ../../bus/pci/drivers/efa"}, nil,
			finding{"events", "mlx5_0", Warn, "efa raises no asynchronous events", "sudoedit"},
		},
		{
			"no uevents for a driver that waits for its users", tree{"sys/devices/0000:3b:00.0/driver": "-> ../../bus/pci/drivers/efa"},
			func(s *System, _ *fakeWorker) { s.Uevents = func() error { return unix.EPERM } },
			finding{"removal", "mlx5_0", Warn, "may have to wait 10 s", "rdma-events release"},
		},
		{
			"no worker", nil, workerError(fs.ErrNotExist, "/nowhere/worker"),
			finding{"worker_program", "", Fail, "file does not exist", "sudo install -m 0755 build/rdma-events-worker /nowhere"},
		},
		{
			"a worker that anybody may change", nil, workerError(status.ErrUntrusted, "/usr/local/bin/rdma-events-worker"),
			finding{"worker_program", "", Fail, "not to be trusted", "chown root: /usr/local/bin/rdma-events-worker"},
		},
		{
			"a worker that may not be executed", nil, workerError(errors.New("not executable"), "/usr/local/bin/rdma-events-worker"),
			finding{"worker_program", "", Fail, "not executable", "sudo chmod 0755 /usr/local/bin/rdma-events-worker"},
		},
		{
			"another program as worker", nil, func(_ *System, w *fakeWorker) { w.versionErr = errors.New("it is another program") },
			finding{"worker_program", "", Fail, "it is another program", "sudo install"},
		},
		{
			"a worker of another version", nil, func(_ *System, w *fakeWorker) { w.version = "1.2.2" },
			finding{"worker_program", "", Warn, "has version 1.2.2, and this program 1.2.3", "sudo install"},
		},
		{
			"a counter that cannot be read", tree{
				port1 + "/hw_counters/duplicate_request": "", port1 + "/hw_counters/aborts/x": "\n", // its errno stands for any
			}, nil,
			finding{"firmware", "mlx5_0", Warn, "aborts: is a directory", "dmesg | grep"},
		},
		{
			"a directory of the recorder that is missing", nil, func(s *System, _ *fakeWorker) {
				plugin := s.Plugin
				s.Plugin = func(path string) (PluginConfig, error) {
					p, err := plugin(path)
					p.Records = "/srv/records"
					return p, err
				}
			},
			finding{"recorder", "", Warn, "srv/records: no such file", "sudo install -d -m 0700 -o telegraf /srv/records"},
		},
		{
			"no configuration", tree{"etc/telegraf/telegraf.d": ""}, nil,
			finding{"telegraf", "", Fail, "no such file", edit},
		},
		{
			"a configuration that is none", config("[[inputs.execd]\n"), nil,
			finding{"telegraf", "", Fail, "toml: ", edit},
		},
		{
			"a configuration without the plugin", config("[[inputs.cpu]]\n"), nil,
			finding{"telegraf", "", Fail, "no [[inputs.execd]]", edit},
		},
		{
			"a plugin that is never prompted", config("[[inputs.execd]]\ncommand = [\"/usr/local/bin/rdma-events\", \"-poll_interval_disabled\"]\n"), nil,
			finding{"telegraf", "inputs.execd", Fail, `set signal = "STDIN"`, edit},
		},
		{
			"a plugin that gathers by itself as well",
			config("[[inputs.execd]]\ncommand = [\"/usr/local/bin/rdma-events\"]\nsignal = \"STDIN\"\n"), nil,
			finding{"telegraf", "inputs.execd", Warn, "add -poll_interval_disabled to command", edit},
		},
		{
			"another data format", config("[[inputs.execd]]\ncommand = [\"/usr/local/bin/rdma-events\"]\ndata_format = \"json\"\n"), nil,
			finding{"telegraf", "inputs.execd", Fail, `data_format = "json"`, edit},
		},
		{
			"a missing program", config("[[inputs.execd]]\ncommand = [\"/opt/rdma-events\"]\n"), nil,
			finding{"telegraf", "inputs.execd", Fail, "no such file", edit},
		},
		{
			"a relative program", config("[[inputs.execd]]\ncommand = [\"rdma-events\"]\n"), nil,
			finding{"telegraf", "inputs.execd", Fail, "want an absolute path", edit},
		},
		{
			"a bad configuration of the plugin", nil, func(s *System, _ *fakeWorker) {
				s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{}, errors.New("nonsense = 1 is not an option") }
			},
			finding{"telegraf", "", Fail, "nonsense = 1", "sudoedit /etc/telegraf/rdma_events.conf"},
		},
		{
			"a simulation", nil, func(s *System, _ *fakeWorker) {
				s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{Simulated: true}, nil }
			},
			finding{"telegraf", "/etc/telegraf/rdma_events.conf", Warn, "simulates devices", "sudoedit"},
		},
		{
			"a configuration that wants other devices", nil, func(s *System, _ *fakeWorker) {
				s.Plugin = func(string) (PluginConfig, error) {
					return PluginConfig{Watches: func(string) bool { return false }}, nil
				}
			},
			finding{"kernel_modules", "", Warn, "the configuration watches none of this host's devices: mlx5_0", "sudoedit"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workingWorker()
			s := newHost(t, healthyTree().with(tt.files), w)
			s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
			if tt.change != nil {
				tt.change(s, w)
			}
			r := Run(t.Context(), s)
			require.GreaterOrEqual(t, r.Status, tt.want.Status)
			var bad []Result
			for _, one := range r.resultsOf(tt.want.Check) {
				if one.Status != OK {
					bad = append(bad, one)
				}
			}
			require.Len(t, bad, 1, "%+v", r.Results)
			require.Equal(t, tt.want.Status, bad[0].Status)
			require.Equal(t, tt.want.Subject, bad[0].Subject)
			require.Contains(t, bad[0].Text, tt.want.Text)
			require.NotContains(t, bad[0].Text, "\n")
			require.Contains(t, bad[0].Fix.String(), tt.want.Fix)
		})
	}
}

func nodeError(err error) func(*System, *fakeWorker) {
	return func(s *System, _ *fakeWorker) {
		s.OpenNode = func(path string) error { return &os.PathError{Op: "open", Path: path, Err: err} }
	}
}

func noTrial(why status.Reason, text string) func(*System, *fakeWorker) {
	return func(_ *System, w *fakeWorker) {
		w.trials = map[verbs.Method]inspect.Trial{verbs.MethodRCWrite: {Why: text, Reason: why}}
	}
}

func workerError(err error, path string) func(*System, *fakeWorker) {
	return func(s *System, _ *fakeWorker) {
		s.WorkerPath = path
		s.OpenWorker = func(string) (Worker, error) { return nil, err }
	}
}

func TestWithoutAWorkerTheRestIsStillChecked(t *testing.T) {
	s := newHost(t, healthyTree(), nil)
	s.OpenWorker = func(string) (Worker, error) { return nil, fs.ErrNotExist }
	r := Run(t.Context(), s)
	require.Equal(t, Fail, r.Status)
	require.Equal(t, Warn, r.resultsOf("libibverbs")[0].Status)
	require.Equal(t, Warn, r.resultsOf("probes")[0].Status)
	require.Equal(t, OK, r.resultsOf("ports")[0].Status)
}

// Not every driver loads ib_uverbs; siw does not. The kernel loads it for the first program that requests a device.
func TestANodeThatComesWithTheTrialIsThere(t *testing.T) {
	const verbsClass = "sys/class/infiniband_verbs"
	w := workingWorker()
	root := healthyTree().with(tree{verbsClass: ""}).write(t)
	w.onTry = func() {
		w.onTry = nil
		tree{verbsClass + "/abi_version": "6\n", verbsClass + "/uverbs0/ibdev": "mlx5_0\n"}.writeTo(t, root)
	}
	r := Run(t.Context(), hostAt(root, w))
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Equal(t, "/dev/infiniband/uverbs0 can be read and written", r.resultsOf("device_nodes")[0].Text)
}

// A counter of flushed work requests may raise an alert of the user.
func TestFlushIsNotTriedWhereItIsCounted(t *testing.T) {
	w := workingWorker()
	counting := w.trials[verbs.MethodRCWrite]
	counting.Attr.CountsFlushes = true
	w.trials[verbs.MethodRCWrite] = counting
	Run(t.Context(), newHost(t, healthyTree(), w))
	require.Equal(t, []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend}, w.tried)
}

func TestADeviceThatIsExcludedIsNotTouched(t *testing.T) {
	w := workingWorker()
	s := newHost(t, healthyTree(), w)
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) {
		return PluginConfig{Watches: func(d string) bool { return d != "mlx5_0" }}, nil
	}
	s.OpenNode = func(path string) error { t.Error("opened", path); return nil }
	r := Run(t.Context(), s)
	require.Empty(t, w.tried)
	require.Equal(t, []Result{{Check: "not_watched", Status: Skipped, Text: "mlx5_0: left out by devices, devices_exclude or ports"}},
		r.resultsOf("not_watched"))
	require.LessOrEqual(t, r.Status, Warn)
}

// withScalable returns a host with a scalable function on the card, without a node.
func withScalable() tree {
	const function = "sys/devices/0000:3b:00.0/mlx5_core.sf.2"
	return healthyTree().with(tree{
		"sys/class/infiniband/mlx5_2":                 "-> ../../devices/0000:3b:00.0/mlx5_core.sf.2/infiniband/mlx5_2",
		function + "/driver":                          "-> ../../../bus/auxiliary/drivers/mlx5_core.sf",
		function + "/infiniband/mlx5_2/device":        "-> ../../../mlx5_core.sf.2",
		function + "/infiniband/mlx5_2/ports/1/state": "1: DOWN\n",
		"sys/bus/auxiliary/drivers/mlx5_core.sf/x":    "",
	})
}

func TestFunctionThatIsNotWatchedIsCountedAndNotJudged(t *testing.T) {
	for name, row := range map[string]struct {
		want verbs.VirtualFunctions
		text string
	}{
		"default": {verbs.VirtualAlone, "1 virtual or scalable function is not watched, because its physical function is visible here; " +
			"virtual_functions = true watches all"},
		"none": {verbs.VirtualNone, "1 virtual or scalable function is not watched, as virtual_functions = false says"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(t, withScalable(), workingWorker())
			s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
			s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{VirtualFunctions: row.want}, nil }
			r := Run(t.Context(), s)
			require.Equal(t, OK, r.Status, "%+v", r.Results)
			require.Equal(t, []Result{{Check: "not_watched", Status: Skipped, Text: row.text}}, r.resultsOf("not_watched"))
			for _, one := range r.Results {
				require.NotContains(t, one.Subject, "mlx5_2")
			}
		})
	}
}

func TestWatchedScalableFunctionIsJudged(t *testing.T) {
	s := newHost(t, withScalable(), workingWorker())
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{VirtualFunctions: verbs.VirtualAll}, nil }
	r := Run(t.Context(), s)
	require.Empty(t, r.resultsOf("not_watched"))
	require.True(t, slices.ContainsFunc(r.resultsOf("device_nodes"), func(one Result) bool { return one.Subject == "mlx5_2" }))
	for _, one := range r.resultsOf("providers") {
		require.Equal(t, OK, one.Status, "the provider of mlx5 is there: %+v", one)
	}
	require.Equal(t, "mlx5_ib", drivers.Companion("mlx5_core.sf"))
	require.Equal(t, "mlx5_core.sf", (&device{DeviceAttr: s.Sysfs.Device("mlx5_2")}).kernelLogWord())
}

func TestAPortThatIsDownByDesignIsNoWarning(t *testing.T) {
	s := newHost(t, healthyTree().with(tree{port1 + "/state": "1: DOWN\n"}), workingWorker())
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) {
		return PluginConfig{ExpectedDown: func(d string, p int) bool { return d == "mlx5_0" && p == 1 }}, nil
	}
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.resultsOf("ports")[0].Status)
	require.Contains(t, r.resultsOf("ports")[0].Text, "as expected_down says")
}

func TestTheReportIsTextForPeopleAndJSONForPrograms(t *testing.T) {
	r := Report{Version: "1.2.3", Kernel: "6.1", User: 7}
	r.addResults(Result{Check: "device_nodes", Subject: "mlx5_0", Text: "can be read"},
		Result{Check: "ports", Subject: "mlx5_0 port 1", Status: Warn, Text: "down", Fix: advice.BringUp.Line("eth0")})
	var text, object bytes.Buffer
	require.NoError(t, r.WriteText(&text, nil))
	require.Equal(t, `rdma-events 1.2.3, Linux 6.1, user 7
OK    device nodes       mlx5_0: can be read
WARN  ports              mlx5_0 port 1: down
              to fix it: ip link set dev eth0 up
               its risk: it connects the host to the network of that port: if it is down on purpose, add it to expected_down instead
1 OK, 1 WARN, 0 FAIL
`, text.String())
	require.NoError(t, r.WriteJSON(&object))
	var back map[string]any
	require.NoError(t, json.Unmarshal(object.Bytes(), &back))
	require.Equal(t, "warn", back["status"])
	require.Equal(t, map[string]any{
		"check": "ports", "subject": "mlx5_0 port 1", "status": "warn", "text": "down", "fix": "ip link set dev eth0 up",
		"risk": "connects the host to the network of that port: if it is down on purpose, add it to expected_down instead",
	}, back["checks"].([]any)[1])
	text.Reset()
	require.NoError(t, r.WriteText(&text, func(s Status, text string) string { return "<" + text + ">" }))
	require.Contains(t, text.String(), "<WARN>  ports")
}

func TestAnOldLibraryIsSaidToLackWhatLaterOnesBrought(t *testing.T) {
	for file, want := range map[string]string{
		"libibverbs.so.1.14.35.0": "; it has no provider for irdma (from release 37 on), erdma (from release 43 on), " +
			"mana (from release 44 on), ionic (from release 61 on)",
		"libibverbs.so.1.14.56.1": "; it has no provider for ionic (from release 61 on)",
		"libibverbs.so.1.16.61.0": "",
		"libibverbs.so.1.0.0":     "", // unknown
	} {
		s := newHost(t, healthyTree().with(tree{"usr/lib/libibverbs.so.1": "-> " + file}), workingWorker())
		r := Run(t.Context(), s)
		require.Equal(t, "version "+s.files().LibraryRelease(file)+" (/usr/lib/libibverbs.so.1)"+want, r.resultsOf("libibverbs")[0].Text)
		require.Equal(t, OK, r.resultsOf("libibverbs")[0].Status)
	}
}

func TestLimitsAreReadByPeople(t *testing.T) {
	require.Equal(t, "64 KiB", formatSize(64<<10))
	require.Equal(t, "8 MiB", formatSize(8<<20))
	require.Equal(t, "unlimited", formatSize(1<<64-1))
}
