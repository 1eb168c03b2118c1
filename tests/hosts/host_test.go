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

func TestBuildRefusesUnknownValues(t *testing.T) {
	for want, d := range map[string]device{
		"rate 300 is not known":                   {Rate: 300},
		`errno "EAGAIN" is not known`:             {OpenErrno: "EAGAIN"},
		`errno "ENOSPC" is not known`:             {Refuses: "ENOSPC"},
		`state "armed" with phys 0 is not known`:  {State: "armed"},
		"the stand-in has no profile of_tomorrow": {Profile: "of_tomorrow"},
	} {
		d.Name, d.PCI, d.Driver = "mlx5_0", "0000:1b:00.0", "mlx5_core"
		h := host{Devices: []device{d}}
		require.ErrorContains(t, h.build(t.TempDir()), want)
	}
}
