package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/verbs"
)

// tree is a file system: the contents of files by path. A symbolic link is written as "-> target".
type tree map[string]string

// with returns a copy with some files changed. "" removes a file and everything
// below it.
func (f tree) with(changes tree) tree {
	all := tree{}
	for name, text := range f {
		all[name] = text
	}
	for name, text := range changes {
		if text != "" {
			all[name] = text
			continue
		}
		for other := range all {
			if other == name || strings.HasPrefix(other, name+"/") {
				delete(all, other)
			}
		}
	}
	return all
}

func (f tree) write(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	f.writeTo(t, root)
	return root
}

func (f tree) writeTo(t *testing.T, root string) {
	t.Helper()
	for name, text := range f {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			require.NoError(t, os.Symlink(target, at))
			continue
		}
		require.NoError(t, os.WriteFile(at, []byte(text), 0o755))
	}
}

const (
	class   = "sys/class/infiniband/mlx5_0"
	port1   = class + "/ports/1"
	libs    = "usr/lib/libibverbs"
	cgroup  = "sys/fs/cgroup/system.slice/telegraf.service"
	mlx5GID = "fe80:0000:0000:0000:0a00:27ff:fe00:0001"
)

// healthyTree returns the files of a Debian host with one RoCE card.
func healthyTree() tree {
	return tree{
		"etc/os-release":                               "ID=debian\n",
		"proc/sys/kernel/osrelease":                    "6.12.57+deb13-amd64\n",
		"proc/self/status":                             "Name:\tx\nCapEff:\t0000000000000000\n",
		"proc/self/uid_map":                            "         0          0 4294967295\n",
		"proc/self/cgroup":                             "0::/system.slice/telegraf.service\n",
		cgroup + "/rdma.max":                           "mlx5_0 hca_handle=max hca_object=2000\n",
		cgroup + "/rdma.current":                       "mlx5_0 hca_handle=1 hca_object=20\n",
		"sys/module/ib_core/parameters/netns_mode":     "Y\n",
		"sys/module/mlx5_ib/initstate":                 "live\n",
		"sys/bus/pci/drivers/mlx5_core/0000:3b:00.0/x": "",
		"sys/bus/pci/drivers/mlx5_core/0000:3b:00.0":   "-> ../../../../devices/card",
		"sys/class/net/eth0":                           "-> ../../devices/card/net/eth0",
		"sys/class/infiniband_verbs/abi_version":       "6\n",
		"sys/class/infiniband_verbs/uverbs0/ibdev":     "mlx5_0\n",
		"sys/class/infiniband_verbs/uverbs0/dev":       "231:192\n",
		"sys/devices/card/net/eth0/mtu":                "9000\n",
		"sys/devices/0000:3b:00.0/x":                   "\n",
		class + "/device":                              "-> ../../../devices/0000:3b:00.0",
		"sys/devices/0000:3b:00.0/driver":              "-> ../../bus/pci/drivers/mlx5_core",
		"sys/devices/0000:3b:00.0/net/eth0/mtu":        "9000\n",
		class + "/node_type":                           "1: CA\n",
		"var/lib/rdma_events/lock":                     "\n",
		port1 + "/hw_counters/duplicate_request":       "0\n",
		port1 + "/state":                               "4: ACTIVE\n",
		port1 + "/phys_state":                          "5: LinkUp\n",
		port1 + "/rate":                                "100 Gb/sec (4X EDR)\n",
		port1 + "/link_layer":                          "Ethernet\n",
		port1 + "/lid":                                 "0x0\n",
		port1 + "/gids/0":                              mlx5GID + "\n",
		port1 + "/gid_attrs/types/0":                   "RoCE v2\n",
		port1 + "/gid_attrs/ndevs/0":                   "eth0\n",
		port1 + "/pkeys/0":                             "0xffff\n",
		"usr/lib/libibverbs.so.1":                      "-> libibverbs.so.1.14.44.0",
		libs + "/libmlx5-rdmav34.so":                   "-> ../libmlx5.so.1.24.44.0",
		libs + "/librxe-rdmav34.so":                    "ELF",
		"usr/local/bin/rdma-events":                    "ELF",
		"etc/telegraf/telegraf.d/rdma_events.conf":     snippet,
		"etc/telegraf/rdma_events.conf":                "[[inputs.rdma_events]]\n",
		"usr/local/bin/rdma-events-worker":             "ELF",
	}.with(tree{"sys/bus/pci/drivers/mlx5_core/0000:3b:00.0/x": ""})
}

const snippet = `[[inputs.execd]]
  command = ["/usr/local/bin/rdma-events", "-config", "/etc/telegraf/rdma_events.conf", "-poll_interval_disabled"]
  signal = "STDIN"
  data_format = "influx"
`

// fakeWorker returns the answers that the test has set.
type fakeWorker struct {
	version, library       string
	versionErr, libraryErr error
	trials                 map[verbs.Method]inspect.Trial
	link                   ethtool.Link
	linkErr                error
	asked                  []string // network devices
	mu                     sync.Mutex
	tried                  []verbs.Method
	onTry                  func()
	closed                 bool
}

func (w *fakeWorker) AskVersion(context.Context) (string, error) { return w.version, w.versionErr }
func (w *fakeWorker) AskLibrary(context.Context) (string, error) { return w.library, w.libraryErr }

func (w *fakeWorker) AskLink(_ context.Context, netdev string) (ethtool.Link, error) {
	w.asked = append(w.asked, netdev)
	return w.link, w.linkErr
}

func (w *fakeWorker) Try(_ context.Context, device string, m verbs.Method) inspect.Trial {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried = append(w.tried, m)
	if w.onTry != nil {
		w.onTry()
	}
	t := w.trials[m]
	t.Attr.Name = device
	return t
}

func (w *fakeWorker) Close() error {
	w.closed = true
	return nil
}

// openedTrial returns the trial of an opened device with one port.
func openedTrial(p inspect.PortTrial) inspect.Trial {
	return inspect.Trial{Opened: true, Attr: verbs.DeviceAttr{Ports: 1}, Ports: map[int]inspect.PortTrial{1: p}}
}

// portTrial returns a port trial with a successful round for each wake-up time.
func portTrial(wakes ...time.Duration) inspect.PortTrial {
	var p inspect.PortTrial
	for _, w := range wakes {
		p.Rounds = append(p.Rounds, verbs.Round{Wake: w.Nanoseconds()})
	}
	return p
}

func workingWorker() *fakeWorker {
	return &fakeWorker{
		version: "1.2.3", library: "/usr/lib/libibverbs.so.1", link: ethtool.Link{Up: true, HasUp: true},
		trials: map[verbs.Method]inspect.Trial{
			verbs.MethodRCWrite: openedTrial(portTrial(50*time.Microsecond, 40*time.Microsecond, 90*time.Microsecond)),
			verbs.MethodUDSend:  openedTrial(inspect.PortTrial{Refused: "the port has no usable GID"}),
			verbs.MethodFlush:   openedTrial(portTrial(60 * time.Microsecond)),
		},
	}
}

// newHost returns a System that reads the files of a tree.
func newHost(t *testing.T, files tree, w Worker) *System {
	t.Helper()
	return hostAt(files.write(t), w)
}

// hostAt is like newHost, for a tree that has already been written to root.
func hostAt(root string, w Worker) *System {
	s := newSystem(root)
	s.Version, s.UID = "1.2.3", 998
	s.LockedMemory, s.OpenFiles = 8<<20, 1024
	s.OpenNode = func(string) error { return nil }
	s.Uevents = func() error { return nil }
	s.KernelLog = func() error { return nil }
	s.Types = func() (map[string]hotplug.Type, error) { return map[string]hotplug.Type{"mlx5_0": {}}, nil }
	s.WorkerPath = "/usr/local/bin/rdma-events-worker"
	s.Records = "/var/lib/rdma_events"
	s.OpenWorker = func(string) (Worker, error) { return w, nil }
	s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{}, nil }
	return s
}

// resultsOf returns the results of a check.
func (r *Report) resultsOf(check string) []Result {
	var found []Result
	for _, one := range r.Results {
		if one.Check == check {
			found = append(found, one)
		}
	}
	return found
}

// finding contains the expected fields of a Result. Text and Fix need to match only in part.
type finding struct {
	Check, Subject string
	Status         Status
	Text, Fix      string
}
