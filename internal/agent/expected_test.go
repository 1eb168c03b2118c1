package agent

import (
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// sampleExpected matches the lines of the sample's section that an administrator uncomments.
var sampleExpected = regexp.MustCompile(`(?m)^( *)# (\[\[inputs\.rdma_events\.expected\]\]|  (?:devices|count|rate_gbps) = )`)

func TestTheSampleHasASectionExpected(t *testing.T) {
	enabled := sampleExpected.ReplaceAllString(sampleConfig(t), "$1$2")
	p, err := parseValid(commented.ReplaceAllString(enabled, "$1$2"))
	require.NoError(t, err)
	require.Equal(t, []ExpectedConfig{{[]string{"mlx5_[0-7]"}, 8, 400}}, p.Expected)
}

func TestSectionsExpectedReachTheMonitor(t *testing.T) {
	p, err := parseValid(`
[[inputs.rdma_events]]
  expect = ["mlx5_9"]
  expected_down = ["mlx5_8:2"]
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_[0-7]"]
    count = 8
    rate_gbps = 400
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_8", "mlx5_9"]
    rate_gbps = 12.5
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_1"]
`)
	require.NoError(t, err)
	m, err := p.monitorConfig(fakeDiscovery{}, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_9", "mlx5_8", "mlx5_1"}, m.Expect, "each that is missing is named")
	require.Len(t, m.Groups, 1)
	require.Equal(t, "mlx5_[0-7]", m.Groups[0].Label)
	require.Equal(t, 8, m.Groups[0].Count)
	require.True(t, m.Groups[0].Matches("mlx5_7"))
	require.False(t, m.Groups[0].Matches("mlx5_8"))
	for device, want := range map[string]struct {
		rate float64
		ok   bool
	}{"mlx5_0": {400, true}, "mlx5_1": {400, true}, "mlx5_8": {12.5, true}, "mlx5_10": {0, false}} {
		rate, ok := m.Configured(device, 2)
		require.Equal(t, want.rate, rate, device)
		require.Equal(t, want.ok, ok, device)
	}
}

// A provider library that is missing is a fault of a device that the configuration expects, or that was open on this host before.
func TestDeviceThatWasOpenOrIsConfiguredShouldBeOpen(t *testing.T) {
	p, err := parseValid(`
[[inputs.rdma_events]]
  expect = ["mlx5_9"]
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_[0-7]"]
    count = 8
`)
	require.NoError(t, err)
	m := memory.New(time.Now)
	m.RememberDevice("irdma0", memory.Identity{}, true)
	m.RememberDevice("rxe0", memory.Identity{}, false)
	for device, want := range map[string]bool{
		"mlx5_9": true, "mlx5_0": true, "irdma0": true, "mlx5_8": false, "irdma1": false, "rxe0": false,
	} {
		require.Equal(t, want, p.expectedFunc(device, m)(), device)
	}
	later := p.expectedFunc("irdma1", m)
	m.RememberDevice("irdma1", memory.Identity{}, true)
	require.True(t, later(), "it has been open meanwhile")
	m.Forget("irdma1", 0)
	require.False(t, later())
}

func TestWhatIsExpectedAndNotHereIsOdd(t *testing.T) {
	p, err := parseValid(`
[[inputs.rdma_events]]
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_[0-3]"]
    count = 4
  [[inputs.rdma_events.expected]]
    devices = ["mlx5_1", "mlx5_8", "mlx5_9"]
`)
	require.NoError(t, err)
	physical := verbs.Found{Name: "mlx5_0", PCI: "0000:3b:00.0"}
	here := []verbs.Found{
		physical, {Name: "mlx5_1", PCI: "0000:3b:00.2", VirtualFunction: true, Parent: physical.PCI},
		{Name: "mlx5_2", Netns: verbs.NetnsOther}, {Name: "mlx5_8"},
	}
	require.Equal(t, []string{
		"expected: 2 devices that are watched here match mlx5_[0-3], and 4 must be there",
		"expected: mlx5_1 is here but not watched (see virtual_functions), so it is reported as missing",
		"expected: mlx5_9 is not here now, so it is reported as missing",
	}, p.Mismatches(here))
	require.Equal(t, []string{"4 of mlx5_[0-3], with all ports active", "mlx5_1, mlx5_8, mlx5_9, with all ports active"}, p.DescribeExpected())
	p, err = parseValid("[[inputs.rdma_events]]\nexpect = [\"mlx5_0\", \"mlx5_1\"]\n")
	require.NoError(t, err)
	require.Equal(t, []string{"expect: mlx5_1 is here but not watched (see virtual_functions), so it is reported as missing"}, p.Mismatches(here))
}
