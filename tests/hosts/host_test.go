package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadHostRefusesIncompleteHosts(t *testing.T) {
	const head = "report = [\"https://example.org/1\"]\nstory = \"x\"\n"
	const devices = "[[device]]\nname = \"mlx5_0\"\n"
	for text, want := range map[string]string{
		devices:                               "needs report, story and device",
		head + "lasts = \"long\"\n" + devices: "invalid duration",
		head + devices + "colour = \"red\"\n": "unknown keys",
		head + devices + "[[event]]\nafter = \"points has rdma_port up=1\"\ndevice = \"mlx5_1\"\ndoes = \"leave the namespace\"\n": "is not known",
		head + devices + "[[event]]\nafter = \"points has rdma_port up=1\"\ndevice = \"mlx5_0\"\ndoes = \"explode\"\n":             "is not known",
		head + devices + "[[event]]\nafter = \"check exit 0\"\ndevice = \"mlx5_0\"\ndoes = \"leave the namespace\"\n":              "is not known",
	} {
		path := filepath.Join(t.TempDir(), "host.toml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := readHost(path)
		require.ErrorContains(t, err, want)
	}
}

func TestBuildLeavesOutWhatADeviceLacks(t *testing.T) {
	missing := false
	h := host{Devices: []device{
		{Name: "mlx5_0", PCI: "0000:3b:00.0", Driver: "mlx5_core", NodeFile: &missing},
		{Name: "rxe0", Profile: "rxe", NetDev: "br0"},
		{Name: "mlx5_1", PCI: "0000:5e:00.0", Driver: "mlx5_core", State: "down", NetDev: "eth1"},
	}}
	dir := t.TempDir()
	require.NoError(t, h.build(dir))
	for path, there := range map[string]bool{
		"sys/class/infiniband_verbs/uverbs0/ibdev": true,
		"nodes/uverbs0":                             false,
		"nodes/uverbs1":                             true,
		"sys/class/infiniband/mlx5_0/device":        true,
		"sys/class/infiniband/rxe0/device":          false,
		"sys/class/infiniband/rxe0/board_id":        false,
		"sys/class/infiniband_verbs/uverbs1/device": false,
	} {
		_, err := os.Stat(filepath.Join(dir, path))
		require.Equal(t, there, err == nil, path)
	}
	carrier, err := os.ReadFile(filepath.Join(dir, "sys/class/net/eth1/carrier"))
	require.NoError(t, err)
	require.Equal(t, "0\n", string(carrier))
}

func TestBuildRefusesUnknownBehaviour(t *testing.T) {
	for want, d := range map[string]device{
		"want refuses or refuses_open":    {Refuses: "EIO", RefusesOpen: "EIO"},
		`errno "EBUSY" is not known`:      {RefusesOpen: "EBUSY"},
		`state "broken" with phys 0 is`:   {State: "broken"},
		`errno "ENOSPC" is not known`:     {Refuses: "ENOSPC"},
		"rate 300 is not known":           {Rate: 300},
		"the stand-in has no profile abc": {Profile: "abc"},
	} {
		d.Name = "mlx5_0"
		h := host{Devices: []device{d}}
		require.ErrorContains(t, h.build(t.TempDir()), want)
	}
}
