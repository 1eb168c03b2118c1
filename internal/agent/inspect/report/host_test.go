package report

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/inspect"
)

func TestHostFactsAreReadFromItsFiles(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"etc/os-release":               "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID='12'\nHOME_URL=\"https://x\"\n",
		"proc/stat":                    "cpu  1 2 3\nctxt 7\nbtime 1795451404\nprocesses 9\n",
		"sys/module/ib_core/x":         "",
		"sys/module/mlx5_core/version": "24.10-1.1.4\n", "sys/module/mlx5_core/srcversion": "ABC\n", "sys/module/mlx5_core/taint": "OE\n",
		"sys/bus/pci/devices/0000:3b:00.0/current_link_speed":  "8.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:3b:00.0/current_link_width":  "8\n",
		"sys/bus/pci/devices/0000:3b:00.0/max_link_speed":      "16.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:3b:00.0/aer_dev_correctable": "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n",
		"sys/bus/pci/devices/0000:3b:00.0/config":              "secret",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	h := ReadHost(os.DirFS(root), HostQuery{
		Time: moment, Name: "node17", Kernel: inspect.Kernel{Release: "6.1.0", Version: "#1 SMP", Machine: "x86_64"}, Programs: Programs{Plugin: "v1.2.3"},
		Devices: []DeviceQuery{{"mlx5_0", "mlx5_core", "mlx5 44.0", "0000:3b:00.0"}, {"rxe0", "rdma_rxe", "", ""}, {"mlx5_2", "mlx5_core.sf", "", ""}},
		Modules: []string{"ib_core", "", "../../etc", "rdma_cm"},
	})
	require.Equal(t, map[string]string{"id": "debian", "version_id": "12", "pretty_name": "Debian GNU/Linux 12 (bookworm)"}, h.Distribution)
	require.Equal(t, time.Unix(1795451404, 0).UTC(), h.Booted)
	require.Equal(t, []Module{{Name: "ib_core"}, {"mlx5_core", "24.10-1.1.4", "ABC", "OE"}}, h.Modules)
	require.Equal(t, []HostDevice{
		{"mlx5_0", "mlx5_core", "mlx5 44.0", &Function{
			"0000:3b:00.0",
			map[string]string{"current_link_speed": "8.0 GT/s PCIe", "current_link_width": "8", "max_link_speed": "16.0 GT/s PCIe"},
			map[string]uint64{"correctable RxErr": 3, "correctable BadTLP": 0},
		}},
		{"rxe0", "rdma_rxe", "", nil},
		{"mlx5_2", "mlx5_core.sf", "", nil},
	}, h.Devices)
}

func TestNamesOfADeviceAreThoseInTheKernelsLines(t *testing.T) {
	sys := t.TempDir()
	card := sys + "/devices/0000:3b:00.0"
	require.NoError(t, os.MkdirAll(card+"/net/eth0", 0o755))
	require.NoError(t, os.MkdirAll(sys+"/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs", 0o755))
	require.NoError(t, os.WriteFile(sys+"/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", []byte("bond0\n"), 0o600))
	require.NoError(t, os.Symlink(card, sys+"/class/infiniband/mlx5_0/device"))
	require.NoError(t, os.Symlink("/sys/bus/pci/drivers/mlx5_core", card+"/driver"))
	require.Equal(t, []string{"mlx5_0", "0000:3b:00.0", "mlx5_core", "mlx5_ib", "eth0", "bond0", "gone0"},
		KernelNames(sys, []string{"mlx5_0", "mlx5_0", "gone0"}))
}

func TestNamesOfAScalableFunctionAreThoseInTheKernelsLines(t *testing.T) {
	sys := t.TempDir()
	function := sys + "/devices/0000:3b:00.0/mlx5_core.sf.2"
	require.NoError(t, os.MkdirAll(function, 0o755))
	require.NoError(t, os.MkdirAll(sys+"/class/infiniband/mlx5_2", 0o755))
	require.NoError(t, os.Symlink(function, sys+"/class/infiniband/mlx5_2/device"))
	require.NoError(t, os.Symlink("/sys/bus/auxiliary/drivers/mlx5_core.sf", function+"/driver"))
	require.Equal(t, []string{"mlx5_2", "0000:3b:00.0", "mlx5_core.sf", "mlx5_ib"}, KernelNames(sys, []string{"mlx5_2"}))
}
