package sysfs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// tree describes a sysfs: content by path, "-> target" for a symbolic link, and
// unreadable for an attribute that exists and answers with an error.
type tree map[string]string

const makeUnreadable = "<unreadable>"

// mlx5Tree returns the sysfs of a dual-port adapter in InfiniBand mode with a virtual function in Ethernet mode. Each is a PCI
// function. The layout follows Linux 6.1, whose class directories have links into devices/.
func mlx5Tree() tree {
	pf := "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/"
	vf := "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.3/"
	return tree{
		"bus/pci/drivers/mlx5_core/module":    "-> ../../../../module/mlx5_core",
		"class/infiniband/mlx5_0":             "-> ../../" + pf + "infiniband/mlx5_0",
		"class/infiniband/mlx5_1":             "-> ../../" + vf + "infiniband/mlx5_1",
		"class/infiniband_verbs/abi_version":  "6\n",
		"class/infiniband_verbs/uverbs0":      "-> ../../" + pf + "infiniband_verbs/uverbs0",
		"class/infiniband_verbs/uverbs1":      "-> ../../" + vf + "infiniband_verbs/uverbs1",
		pf + "driver":                         "-> ../../../../bus/pci/drivers/mlx5_core",
		pf + "numa_node":                      "1\n",
		pf + "infiniband_verbs/uverbs0/ibdev": "mlx5_0\n",
		pf + "infiniband/mlx5_0/device":       "-> ../../../0000:3b:00.0",
		pf + "infiniband/mlx5_0/node_type":    "1: CA\n",
		pf + "infiniband/mlx5_0/node_guid":    "0C42:A103:0065:BAFE\n",
		pf + "infiniband/mlx5_0/node_desc":    "host7 mlx5_0\n",

		pf + "infiniband/mlx5_0/sys_image_guid":               "0c42:a103:0065:bafe\n",
		pf + "infiniband/mlx5_0/board_id":                     "MT_0000000224\n",
		pf + "infiniband/mlx5_0/fw_ver":                       "20.31.1014\n",
		pf + "infiniband/mlx5_0/ports/1/rate":                 "100 Gb/sec (4X EDR)\n",
		pf + "infiniband/mlx5_0/ports/1/counters/link_downed": "3\n",
		pf + "infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0":    makeUnreadable,
		pf + "infiniband/mlx5_0/ports/2/rate":                 "2.5 Gb/sec (1X SDR)\n",
		pf + "infiniband/mlx5_0/ports/2/counters/link_downed": "N/A (no PMA)\n",
		pf + "infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0":    makeUnreadable,
		vf + "driver":                                                 "-> ../../../../bus/pci/drivers/mlx5_core",
		vf + "physfn":                                                 "-> ../0000:3b:00.0",
		vf + "numa_node":                                              "-1\n",
		vf + "infiniband_verbs/uverbs1/ibdev":                         "mlx5_1\n",
		vf + "infiniband/mlx5_1/device":                               "-> ../../../0000:3b:00.3",
		vf + "infiniband/mlx5_1/node_type":                            "1: CA\n",
		vf + "infiniband/mlx5_1/fw_ver":                               makeUnreadable,
		vf + "infiniband/mlx5_1/ports/1/rate":                         "25 Gb/sec (1X EDR)\n",
		vf + "infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0":            makeUnreadable,
		vf + "infiniband/mlx5_1/ports/1/gid_attrs/ndevs/1":            makeUnreadable,
		vf + "infiniband/mlx5_1/ports/1/gid_attrs/ndevs/2":            "enp59s0f0v1\n",
		vf + "infiniband/mlx5_1/ports/1/gid_attrs/ndevs/3":            "enp59s0f0v1.7\n",
		vf + "infiniband/mlx5_1/ports/1/counters/link_downed":         makeUnreadable,
		vf + "infiniband/mlx5_1/ports/1/hw_counters/out_of_sequence":  "0\n",
		vf + "infiniband/mlx5_1/ports/1/hw_counters/lifespan":         "10\n",
		vf + "infiniband/mlx5_1/ports/1/counters/port_rcv_data":       "0\n",
		vf + "infiniband/mlx5_1/ports/1/counters/excessive_overrun":   "0\n",
		vf + "infiniband/mlx5_1/ports/1/gid_attrs/types/2":            "RoCE v2\n",
		vf + "infiniband/mlx5_1/ports/1/gids/2":                       "0000:0000:0000:0000:0000:ffff:0a00:0001\n",
		vf + "infiniband/mlx5_1/ports/1/link_layer":                   "Ethernet\n",
		pf + "infiniband/mlx5_0/ports/1/link_layer":                   "InfiniBand\n",
		pf + "infiniband/mlx5_0/ports/1/counters/link_error_recovery": "0\n",
	}
}

// rxeTree returns the sysfs of Debian's Linux 6.1 after "rdma link add rxe0 type rxe netdev d0".
func rxeTree() tree {
	dev := "devices/virtual/infiniband/rxe0/"
	return tree{
		"class/infiniband/rxe0":                          "-> ../../devices/virtual/infiniband/rxe0",
		"class/infiniband_verbs/abi_version":             "6\n",
		"class/infiniband_verbs/uverbs0":                 "-> ../../devices/virtual/infiniband_verbs/uverbs0",
		"devices/virtual/infiniband_verbs/uverbs0/ibdev": "rxe0\n",
		"devices/virtual/infiniband_verbs/uverbs0/dev":   "231:192\n",
		dev + "fw_ver":                                              "\n",
		dev + "node_desc":                                           "rxe\n",
		dev + "node_guid":                                           "e01f:e5ff:fe51:e9c2\n",
		dev + "node_type":                                           "1: CA\n",
		dev + "parent":                                              "d0\n",
		dev + "sys_image_guid":                                      "e01f:e5ff:fe51:e9c2\n",
		dev + "ports/1/rate":                                        "2.5 Gb/sec (1X SDR)\n",
		dev + "ports/1/gid_attrs/ndevs/0":                           "d0\n",
		dev + "ports/1/gid_attrs/ndevs/1":                           "d0\n",
		dev + "ports/1/gid_attrs/ndevs/2":                           makeUnreadable,
		dev + "ports/1/hw_counters/link_downed":                     "1\n",
		dev + "ports/1/hw_counters/lifespan":                        "10\n",
		"devices/virtual/infiniband_verbs/uverbs0/uevent":           "MAJOR=231\n",
		"devices/virtual/infiniband_verbs/uverbs0/power/async":      "",
		"devices/virtual/infiniband_verbs/uverbs0/abi_version":      "2\n",
		"devices/virtual/infiniband/rxe0/power/runtime_active_time": "0\n",
	}
}

func efaTree() tree {
	pci := "devices/pci0000:00/0000:00:06.0/"
	return tree{
		"class/infiniband/rdmap0s6":               "-> ../../" + pci + "infiniband/rdmap0s6",
		"class/infiniband_verbs/uverbs0":          "-> ../../" + pci + "infiniband_verbs/uverbs0",
		pci + "driver":                            "-> ../../../bus/pci/drivers/efa",
		pci + "numa_node":                         "0\n",
		pci + "infiniband_verbs/uverbs0/ibdev":    "rdmap0s6\n",
		pci + "infiniband/rdmap0s6/device":        "-> ../../../0000:00:06.0",
		pci + "infiniband/rdmap0s6/node_type":     "7: unspecified\n",
		pci + "infiniband/rdmap0s6/fw_ver":        "0.0.0.0\n",
		pci + "infiniband/rdmap0s6/ports/1/rate":  "100 Gb/sec (4X EDR)\n",
		pci + "infiniband/rdmap0s6/hw_counters/a": "0\n",
	}
}

func (files tree) mount(t *testing.T) sysfs.FS {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		target, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isLink:
			require.NoError(t, os.Symlink(target, full))
		case content == makeUnreadable:
			// Reading a directory as a file fails for root as well.
			require.NoError(t, os.Mkdir(full, 0o755))
		default:
			require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
		}
	}
	return sysfs.New(root)
}

// scalableFunctionTree returns the sysfs of a scalable function on the auxiliary bus, below the physical function of a card.
func scalableFunctionTree() tree {
	const function = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/mlx5_core.sf.2/"
	return tree{
		"class/infiniband/mlx5_2":                "-> ../../" + function + "infiniband/mlx5_2",
		"bus/auxiliary/drivers/mlx5_core.sf/x":   "",
		"bus/pci/devices/0000:3b:00.0":           "-> ../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
		function + "driver":                      "-> ../../../../../bus/auxiliary/drivers/mlx5_core.sf",
		function + "net/enp59s0f0S88/mtu":        "1500\n",
		function + "infiniband/mlx5_2/device":    "-> ../../../mlx5_core.sf.2",
		function + "infiniband/mlx5_2/node_guid": "0000:0000:0000:0000\n",
		function + "infiniband/mlx5_2/node_type": "1: CA\n",
	}
}

func TestSysfsDescribesDevices(t *testing.T) {
	for _, row := range []struct {
		name  string
		files tree
		want  verbs.DeviceAttr
	}{
		{"a PCI function", mlx5Tree(), verbs.DeviceAttr{
			Name: "mlx5_0", EventsSupported: true,
			NodeGUID: "0c42:a103:0065:bafe", SysImageGUID: "0c42:a103:0065:bafe",
			PCIAddress: "0000:3b:00.0", NUMANode: 1, BoardID: "MT_0000000224",
			Driver: "mlx5_core", Transport: "infiniband", Firmware: "20.31.1014",
		}},
		{"a virtual function that answers little", mlx5Tree(), verbs.DeviceAttr{
			Name: "mlx5_1", EventsSupported: true, PCIAddress: "0000:3b:00.3", NUMANode: -1,
			Driver: "mlx5_core", Transport: "infiniband", VirtualFunction: true,
		}},
		{"a scalable function", scalableFunctionTree(), verbs.DeviceAttr{
			Name: "mlx5_2", EventsSupported: true, NodeGUID: "0000:0000:0000:0000", PCIAddress: "0000:3b:00.0", NUMANode: -1,
			Driver: "mlx5_core.sf", Transport: "infiniband", VirtualFunction: true,
		}},
		{"a soft device", rxeTree(), verbs.DeviceAttr{
			Name: "rxe0", EventsSupported: true,
			NodeGUID: "e01f:e5ff:fe51:e9c2", SysImageGUID: "e01f:e5ff:fe51:e9c2",
			NUMANode: -1, Driver: "rdma_rxe", Transport: "infiniband",
		}},
		{"a driver without events", efaTree(), verbs.DeviceAttr{
			Name: "rdmap0s6", EventsSupported: false, PCIAddress: "0000:00:06.0",
			Driver: "efa", Transport: "unspecified", Firmware: "0.0.0.0",
		}},
		{"a device that is gone", rxeTree(), verbs.DeviceAttr{
			Name: "mlx5_9", EventsSupported: true, NUMANode: -1,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, row.files.mount(t).Device(row.want.Name))
		})
	}
}

func TestSysfsCompletesPorts(t *testing.T) {
	for _, row := range []struct {
		name   string
		files  tree
		device string
		port   int
		attr   verbs.PortAttr
		want   verbs.PortAttr
	}{
		{"InfiniBand has no network device", mlx5Tree(), "mlx5_0", 1,
			verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand},
			verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand, RateGbps: 100, Width: "4x", LinkDowned: 3, HasLinkDowned: true}},
		{"a counter without performance management", mlx5Tree(), "mlx5_0", 2,
			verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand},
			verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand, RateGbps: 2.5, Width: "1x"}},
		{"empty GIDs first and a counter that is there and unreadable", mlx5Tree(), "mlx5_1", 1,
			verbs.PortAttr{LinkLayer: verbs.LinkEthernet},
			verbs.PortAttr{LinkLayer: verbs.LinkEthernet, RateGbps: 25, Width: "1x", NetDev: "enp59s0f0v1"}},
		{"no counters directory", rxeTree(), "rxe0", 1,
			verbs.PortAttr{LinkLayer: verbs.LinkEthernet},
			verbs.PortAttr{LinkLayer: verbs.LinkEthernet, RateGbps: 2.5, Width: "1x", NetDev: "d0", LinkDowned: 1, HasLinkDowned: true}},
		{"neither network device nor counter", efaTree(), "rdmap0s6", 1,
			verbs.PortAttr{},
			verbs.PortAttr{RateGbps: 100, Width: "4x"}},
		{"rate and width that the query gave stay", efaTree(), "rdmap0s6", 1,
			verbs.PortAttr{RateGbps: 200, Width: "8x"},
			verbs.PortAttr{RateGbps: 200, Width: "8x"}},
		{"a width alone is kept", efaTree(), "rdmap0s6", 1,
			verbs.PortAttr{Width: "8x"},
			verbs.PortAttr{RateGbps: 100, Width: "8x"}},
		{"a port that is gone changes nothing", rxeTree(), "rxe0", 2,
			verbs.PortAttr{State: verbs.PortActive, MTU: 1024, LID: 7},
			verbs.PortAttr{State: verbs.PortActive, MTU: 1024, LID: 7}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.attr
			row.files.mount(t).Port(row.device, row.port, &got)
			require.Equal(t, row.want, got)
		})
	}
}

func TestSysfsKnowsSoftDriversByWhatTheyAloneHave(t *testing.T) {
	dir := "class/infiniband/dev0/"
	onNIC := func(files tree) tree {
		files[dir+"device"] = "-> ../../../devices/0000:01:00.0"
		files["devices/0000:01:00.0/driver"] = "-> ../../bus/pci/drivers/ixgbe"
		return files
	}
	for _, row := range []struct {
		name  string
		files tree
		want  string
	}{
		{"rxe whose description was rewritten", tree{dir + "node_desc": "host7 dev0\n", dir + "parent": "d0\n"}, "rdma_rxe"},
		{"rxe below a card", onNIC(tree{dir + "node_desc": "rxe\n"}), "rdma_rxe"},
		{"siw below a card", onNIC(tree{dir + "node_desc": "Software iWARP stack\n"}), "siw"},
		{"siw whose description was rewritten", tree{dir + "node_desc": "host7 dev0\n", dir + "node_type": "4: RNIC\n"}, "siw"},
		{"hardware iWARP", onNIC(tree{dir + "node_type": "4: RNIC\n"}), "ixgbe"},
		{"no attribute identifies the driver", tree{dir + "node_type": "1: CA\n"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, row.files.mount(t).Device("dev0").Driver)
		})
	}
}

func TestSysfsFindsNodes(t *testing.T) {
	sysfs := mlx5Tree().mount(t)

	nodes, err := sysfs.Nodes()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"mlx5_0": "uverbs0", "mlx5_1": "uverbs1"}, nodes)

	node, err := sysfs.Node("mlx5_1")
	require.NoError(t, err)
	require.Equal(t, "uverbs1", node)

	_, err = sysfs.Node("mlx5_2")
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	require.EqualError(t, err, "read uverbs node mlx5_2: no such RDMA device")

	devices, err := sysfs.Devices()
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_0", "mlx5_1"}, devices)
}

func TestSysfsWithoutRDMAHasNoDevices(t *testing.T) {
	sysfs := sysfs.New(t.TempDir())

	devices, err := sysfs.Devices()
	require.NoError(t, err)
	require.Empty(t, devices)
	_, err = sysfs.Node("mlx5_0")
	require.ErrorIs(t, err, verbs.ErrNoDevice)
}

func TestSysfsReportsAClassThatCannotBeListed(t *testing.T) {
	sysfs := tree{"class/infiniband": "a file", "class/infiniband_verbs": "a file"}.mount(t)

	_, err := sysfs.Devices()
	require.Error(t, err)
	_, err = sysfs.Node("mlx5_0")
	require.ErrorContains(t, err, "read uverbs node mlx5_0: ")
	require.NotErrorIs(t, err, verbs.ErrNoDevice)
}

func TestNodeThatCannotBeReadHidesNoOtherNode(t *testing.T) {
	root := t.TempDir()
	for _, node := range []string{"uverbs0", "uverbs1"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, "class/infiniband_verbs", node), 0o755))
	}
	file := filepath.Join(root, "class/infiniband_verbs/uverbs0/ibdev")
	require.NoError(t, os.Symlink(file, file))
	require.NoError(t, os.WriteFile(filepath.Join(root, "class/infiniband_verbs/uverbs1/ibdev"), []byte("mlx5_1\n"), 0o600))
	fs := sysfs.New(root)
	node, err := fs.Node("mlx5_1")
	require.NoError(t, err)
	require.Equal(t, "uverbs1", node)
	_, err = fs.Node("mlx5_0")
	require.Error(t, err)
	require.NotErrorIs(t, err, verbs.ErrNoDevice, "its node may be the one that cannot be read")
}

func TestInstanceIsRemovedOnceItsNodeIsGoneOrAnother(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(root, "class/infiniband_verbs/uverbs0")
	require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o755))
	for _, dir := range []string{"first", "second"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, "ibdev"), []byte("mlx5_0\n"), 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(root, "first"), link))
	fs := sysfs.New(root)
	first := fs.Instance("mlx5_0")
	require.False(t, first.Removed())
	require.NoError(t, os.Remove(link))
	require.True(t, first.Removed())
	require.NoError(t, os.Symlink(filepath.Join(root, "second"), link))
	require.True(t, first.Removed(), "another device has its name and its node")
	require.False(t, fs.Instance("mlx5_0").Removed())
	require.False(t, fs.Instance("mlx5_9").Removed(), "unknown")
}
