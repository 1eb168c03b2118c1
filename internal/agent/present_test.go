package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestPortThatItsDeviceLacksIsOdd(t *testing.T) {
	p, err := parseValid("[[inputs.rdma_events]]\nports = [\"mlx5_0:1\", \"mlx5_0:2\", \"mlx5_9:3\"]\nexpected_down = [\"mlx5_0:3\"]\n")
	require.NoError(t, err)
	ports := func(device string) []int { return map[string][]int{"mlx5_0": {1}}[device] }
	require.Equal(t, []string{
		"ports: mlx5_0:2: mlx5_0 has no port 2", "expected_down: mlx5_0:3: mlx5_0 has no port 3",
	}, p.PortMismatches(ports))
}

func TestFunctionsAreWatchedAsConfigured(t *testing.T) {
	physical := verbs.Found{Name: "mlx5_0", PCI: "0000:3b:00.0"}
	virtual := verbs.Found{Name: "mlx5_4", PCI: "0000:3b:00.2", VirtualFunction: true, Parent: physical.PCI}
	scalable := verbs.Found{Name: "mlx5_5", VirtualFunction: true, Scalable: true, Parent: physical.PCI}
	left := verbs.Found{Name: "storage0", VirtualFunction: true, Parent: physical.PCI}
	pod, host := []verbs.Found{virtual, scalable, left}, []verbs.Found{physical, virtual, scalable, left}
	for name, row := range map[string]struct {
		option  string
		here    []verbs.Found
		watched []string
		skipped string
	}{
		"pod": {"", pod, []string{"mlx5_4", "mlx5_5"}, ""},
		"host": {"", host, []string{"mlx5_0"}, "2 virtual or scalable functions are not watched, " +
			"because their physical functions are visible here; virtual_functions = true watches all"},
		"all":  {"virtual_functions = true", host, []string{"mlx5_0", "mlx5_4", "mlx5_5"}, ""},
		"none": {"virtual_functions = false", pod, nil, "2 virtual or scalable functions are not watched, as virtual_functions = false says"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := parseValid("[[inputs.rdma_events]]\ndevices = [\"mlx5_*\"]\n" + row.option + "\n")
			require.NoError(t, err)
			var watched []string
			for _, d := range row.here {
				if p.Watches(d, row.here) {
					watched = append(watched, d.Name)
				}
			}
			require.Equal(t, row.watched, watched)
			require.Equal(t, row.skipped, p.ExplainSkipped(row.here))
		})
	}
}
