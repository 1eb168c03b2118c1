package sysfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestPCIFunctionHasItsDriverAndMaster(t *testing.T) {
	const devices = "devices/pci0000:3a/0000:3a:00.0/"
	net := devices + "0000:3b:00.0/net/"
	s := tree{
		"bus/pci/devices/0000:3b:00.0":   "-> ../../../" + devices + "0000:3b:00.0",
		"bus/pci/devices/0000:3b:00.3":   "-> ../../../" + devices + "0000:3b:00.3",
		devices + "0000:3b:00.0/driver":  "-> ../../../../bus/pci/drivers/mlx5_core",
		net + "eth0/ifindex":             "3\n",
		net + "eth1/master":              "-> ../../../../../../virtual/net/bond0",
		devices + "0000:3b:00.3/driver":  "-> ../../../../bus/pci/drivers/vfio-pci",
		devices + "0000:3b:00.4/current": "0\n",
	}.mount(t)
	leg, passed := s.PCIFunction("0000:3b:00.0"), s.PCIFunction("0000:3b:00.3")
	require.NotZero(t, leg.Instance)
	require.NotZero(t, passed.Instance)
	require.NotEqual(t, leg.Instance, passed.Instance)
	leg.Instance, passed.Instance = 0, 0
	require.Equal(t, verbs.PCIFunction{Driver: "mlx5_core", Master: "bond0"}, leg)
	require.Equal(t, verbs.PCIFunction{Driver: "vfio-pci"}, passed)
	require.Equal(t, verbs.PCIFunction{Absent: true}, s.PCIFunction("0000:3b:00.9"))
	require.Zero(t, tree{}.mount(t).PCIFunction("0000:3b:00.9"), "without a bus nothing is known")
}

func TestOnlyAHardwareDeviceIsOnAPCIFunction(t *testing.T) {
	address, driver := mlx5Tree().mount(t).PCIFunctionOf("mlx5_1")
	require.Equal(t, []string{"0000:3b:00.3", "mlx5_core"}, []string{address, driver})
	for name, files := range map[string]tree{
		"no device below": rxeTree(),
		"below the network card's function": {
			"class/infiniband/rxe0/device":     "-> ../../../devices/0000:3b:00.0",
			"class/infiniband/rxe0/node_desc":  "rxe\n",
			"devices/0000:3b:00.0/driver":      "-> ../../bus/pci/drivers/mlx5_core",
			"bus/pci/drivers/mlx5_core/module": "x",
		},
	} {
		address, driver := files.mount(t).PCIFunctionOf("rxe0")
		require.Empty(t, address+driver, name)
	}
}

func TestFunctionHasItsPhysicalFunction(t *testing.T) {
	const physical = "0000:3b:00.0"
	for _, row := range []struct {
		files tree
		want  verbs.Found
	}{
		{mlx5Tree(), verbs.Found{Name: "mlx5_0", PCI: physical, Driver: "mlx5_core"}},
		{mlx5Tree(), verbs.Found{Name: "mlx5_1", VirtualFunction: true, Parent: physical, PCI: "0000:3b:00.3", Driver: "mlx5_core"}},
		{scalableFunctionTree(), verbs.Found{Name: "mlx5_2", VirtualFunction: true, Scalable: true, Parent: physical}},
		{rxeTree(), verbs.Found{Name: "rxe0", Soft: true}},
	} {
		f, err := row.files.mount(t).Function(row.want.Name)
		require.NoError(t, err)
		require.Equal(t, row.want, f)
	}
	files := scalableFunctionTree()
	files["devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/net/enp59s0f0np0/mtu"] = "1500\n"
	f, err := files.mount(t).Function("mlx5_2")
	require.NoError(t, err)
	require.True(t, f.ParentNetDev)
}

func TestSoftDeviceIsToldFromOneOnAnotherBus(t *testing.T) {
	const platform = "devices/platform/HISI00D1:00/infiniband/hns_0"
	below := tree{
		"class/infiniband/rxe0":                       "-> ../../devices/0000:3b:00.0/infiniband/rxe0",
		"devices/0000:3b:00.0/driver":                 "-> ../../bus/pci/drivers/mlx5_core",
		"bus/pci/drivers/mlx5_core/x":                 "",
		"devices/0000:3b:00.0/infiniband/rxe0/device": "-> ../../../0000:3b:00.0",
		"devices/0000:3b:00.0/infiniband/rxe0/parent": "eth0\n",
	}
	for _, row := range []struct {
		name, device string
		files        tree
		soft         bool
	}{
		{"rxe", "rxe0", rxeTree(), true},
		{"rxe of an older kernel", "rxe0", below, true},
		{"one without a parent, of a driver of tomorrow", "soft0", tree{
			"class/infiniband/soft0": "-> ../../devices/virtual/infiniband/soft0", "devices/virtual/infiniband/soft0/node_type": "1: CA\n",
		}, true},
		{"a card on no PCI bus", "hns_0", tree{
			"class/infiniband/hns_0": "-> ../../" + platform, platform + "/device": "-> ../../../HISI00D1:00", platform + "/node_type": "1: CA\n",
		}, false},
		{"a scalable function", "mlx5_2", scalableFunctionTree(), false},
		{"one that is not there", "mlx5_9", mlx5Tree(), false},
	} {
		f, err := row.files.mount(t).Function(row.device)
		require.NoError(t, err, row.name)
		require.Equal(t, row.soft, f.Soft, row.name)
	}
}

func TestScalableFunctionIsOnTheCardOfItsPhysicalFunction(t *testing.T) {
	address, driver := scalableFunctionTree().mount(t).CardOf("mlx5_2")
	require.Equal(t, []string{"0000:3b:00.0", "mlx5_core.sf"}, []string{address, driver})
	address, driver = mlx5Tree().mount(t).CardOf("mlx5_1")
	require.Equal(t, []string{"0000:3b:00.3", "mlx5_core"}, []string{address, driver})
}
