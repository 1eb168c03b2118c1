//go:build linux && cgo

package native

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

func TestUplinkIsThePortOfTheCable(t *testing.T) {
	root := t.TempDir()
	for netdev, portName := range map[string]string{"eth0": "p0", "eth1": "p1", "rep0": "pf0vf0", "rep1": "pf0sf88", "mlx4a": "", "mlx4b": ""} {
		dir := filepath.Join(root, "class/net", netdev)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "phys_port_name"), []byte(portName+"\n"), 0o600))
	}
	for name, row := range map[string]struct {
		ports  int
		names  map[int]string
		err    error
		uplink int
	}{
		"switchdev":                       {130, map[int]string{2: "rep0", 66: "rep1", 130: "eth0"}, nil, 130},
		"switchdev with a LAG":            {7, map[int]string{2: "rep0", 4: "eth0", 6: "rep1"}, nil, 4},
		"an earlier kernel":               {5, map[int]string{1: "eth0", 2: "rep0"}, nil, 1},
		"switchdev without functions":     {3, map[int]string{3: "eth0"}, nil, 3},
		"its cable's network device gone": {3, map[int]string{2: "rep0"}, nil, 0},
		"two ports with RoCE":             {2, map[int]string{1: "eth0", 2: "eth1"}, nil, 0},
		"the second one in a pod":         {2, map[int]string{1: "eth0"}, nil, 0},
		"two ports without names":         {2, map[int]string{1: "mlx4a", 2: "mlx4b"}, nil, 0},
		"InfiniBand":                      {2, nil, nil, 0},
		"no answer":                       {130, map[int]string{2: "rep0", 130: "eth0"}, verbs.ErrUnsupported, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &nativeDevice{name: "mlx5_0", sysfs: sysfs.New(root), attr: verbs.DeviceAttr{Ports: row.ports}}
			d.findUplink(func(string) (map[int]string, error) { return row.names, row.err })
			require.Equal(t, row.uplink, d.attr.Uplink)
			require.Equal(t, row.names[row.uplink], d.uplinkNetDev)
		})
	}
}

func TestRepresentorsHaveTheNamesOfFunctions(t *testing.T) {
	for name, representor := range map[string]bool{
		"p0": false, "p1s2": false, "": false, "7": false, "pfx": false, // of cables, and of drivers with names of their own
		"pf0": true, "pf0hpf": true, "pf0vf3": true, "pf1sf88": true, "c1pf0": true, "c1pf0vf12": true,
	} {
		require.Equal(t, representor, representorName.MatchString(name), name)
	}
}
