package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expectDevices makes the plugin's configuration of a host require devices.
func expectDevices(s *System, e Expected) {
	s.Config = "/etc/telegraf/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) {
		return PluginConfig{Expected: e, Watches: func(device string) bool { return device != "mlx5_9" }}, nil
	}
}

func TestExpectedDeviceThatIsAbsentIsAFailure(t *testing.T) {
	s := newHost(t, healthyTree(), workingWorker())
	expectDevices(s, Expected{Names: []string{"mlx5_0", "mlx5_1"}})
	r := Run(t.Context(), s)
	require.Equal(t, Fail, r.Status)
	found := r.resultsOf("expected")
	require.Len(t, found, 1)
	require.Equal(t, Fail, found[0].Status)
	require.Equal(t, "mlx5_1", found[0].Subject)
	require.Contains(t, found[0].Text, "device-missing")
	require.Equal(t, "lspci -nn", found[0].Fix.String())
}

func TestHostWithAllExpectedDevicesHasNoFinding(t *testing.T) {
	elsewhere := tree{"sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1\n", "sys/module/ib_core/parameters/netns_mode": "N\n"}
	isMlx5 := func(device string) bool { return strings.HasPrefix(device, "mlx5_") }
	for name, c := range map[string]struct {
		files    tree
		released string
		expected Expected
	}{
		"it is there":                     {expected: Expected{Names: []string{"mlx5_0"}}},
		"it is in another namespace":      {files: elsewhere, expected: Expected{Names: []string{"mlx5_1"}}},
		"it is released":                  {released: "mlx5_1", expected: Expected{Names: []string{"mlx5_1"}}},
		"so many are there":               {expected: Expected{Groups: []ExpectedGroup{{"mlx5_*", isMlx5, 1}}}},
		"one of them is in another":       {files: elsewhere, expected: Expected{Groups: []ExpectedGroup{{"mlx5_*", isMlx5, 2}}}},
		"the one that is there is let go": {released: "mlx5_0", expected: Expected{Groups: []ExpectedGroup{{"mlx5_*", isMlx5, 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(t, healthyTree().with(c.files), workingWorker())
			s.Released = func(device string) string {
				if device == c.released {
					return "released until 12:00"
				}
				return ""
			}
			expectDevices(s, c.expected)
			r := Run(t.Context(), s)
			require.False(t, slices.ContainsFunc(r.resultsOf("expected"), func(one Result) bool { return one.Status > OK }), "%+v", r.Results)
			require.Empty(t, r.resultsOf("expected")[0].Fix)
		})
	}
}

func TestTooFewExpectedDevicesAreAFailure(t *testing.T) {
	s := newHost(t, healthyTree().with(tree{"sys/class/infiniband/mlx5_9/node_type": "1: CA\n"}), workingWorker()) // which is not watched
	expectDevices(s, Expected{Groups: []ExpectedGroup{{"mlx5_[0-9]", func(device string) bool { return strings.HasPrefix(device, "mlx5_") }, 2}}})
	r := Run(t.Context(), s)
	require.Equal(t, Fail, r.Status)
	found := r.resultsOf("expected")
	require.Len(t, found, 1)
	require.Contains(t, found[0].Text, "1 of 2 devices that match mlx5_[0-9]")
	require.Contains(t, found[0].Text, "devices-too-few")
	require.Equal(t, "lspci -nn", found[0].Fix.String())
}

func TestConfigurationThatExpectsNothingHasNoFinding(t *testing.T) {
	r := Run(t.Context(), newHost(t, healthyTree(), workingWorker()))
	require.Empty(t, r.resultsOf("expected"))
}
