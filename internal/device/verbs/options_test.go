package verbs

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchedPortsAreTheNamedOnesOrTheFirstAndTheUplink(t *testing.T) {
	watched := func(ports, uplink int, named ...int) []int {
		return (&DeviceAttr{Ports: ports, Uplink: uplink}).WatchedPorts(named)
	}
	require.Equal(t, []int{3, 1}, watched(2, 0, 3, 1))
	require.Equal(t, []int{1, 2}, watched(2, 0))
	require.Len(t, watched(255, 0), MaxPorts)
	require.Empty(t, watched(0, 0))
	require.Equal(t, []int{1, 2, 3}, watched(3, 3))
	many := watched(130, 130)
	require.Len(t, many, MaxPorts)
	require.Equal(t, []int{1, 15, 130}, []int{many[0], many[14], many[15]})
	require.Equal(t, []int{2}, watched(130, 130, 2))
	for port := 1; port <= 255; port++ {
		for _, uplink := range []int{0, 1, 16, 17, 130} {
			require.Equal(t, slices.Contains(watched(255, uplink), port), IsWatchedByDefault(port, uplink), "%d %d", port, uplink)
		}
	}
}

func TestMissedRoundsKeepToTheGrid(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, 99 * time.Millisecond: 0, 100 * time.Millisecond: 100 * time.Millisecond,
		250 * time.Millisecond: 200 * time.Millisecond,
	} {
		require.Equal(t, want, MissedIntervals(delay, 100*time.Millisecond), delay)
	}
	require.Zero(t, MissedIntervals(time.Second, 0), "there is one round")
}

func TestMethodsAreParsedByTheirNames(t *testing.T) {
	for m := MethodAuto; m <= MethodFlush; m++ {
		got, ok := ParseMethod(m.String())
		require.True(t, ok)
		require.Equal(t, m, got)
	}
	_, ok := ParseMethod("x")
	require.False(t, ok)
}

func TestProbesAreInTheOrderOfPortVectorAndMethod(t *testing.T) {
	order := []ProbeKey{{1, 0, MethodRCWrite}, {1, 0, MethodFlush}, {1, 1, MethodRCWrite}, {2, 0, MethodNone}}
	for i := range order {
		for j := range order {
			require.Equal(t, i < j, order[i].Compare(order[j]) < 0)
			require.Equal(t, i == j, order[i].Compare(order[j]) == 0)
		}
	}
}

func TestPortsThatShareACableHaveOneName(t *testing.T) {
	nic := func(guid, pci string) *DeviceAttr {
		return &DeviceAttr{SysImageGUID: guid, PCIAddress: pci, Driver: "mlx5_core"}
	}
	one := nic("506b:4b03:00aa:0000", "0000:3b:00.0").Cable(1)
	require.NotEmpty(t, one)
	require.Equal(t, one, nic("506b:4b03:00aa:0000", "0000:86:00.0").Cable(1), "Socket Direct, or another host")
	for what, other := range map[string]string{
		"the second port": nic("506b:4b03:00aa:0000", "0000:3b:00.1").Cable(1),
		"of one device":   nic("506b:4b03:00aa:0000", "0000:3b:00.0").Cable(2),
		"another NIC":     nic("506b:4b03:00bb:0000", "0000:3b:00.0").Cable(1),
	} {
		require.NotEmpty(t, other, what)
		require.NotEqual(t, one, other, what)
	}
	require.Empty(t, nic("", "0000:3b:00.0").Cable(1))
	require.Empty(t, nic("0000:0000:0000:0000", "0000:3b:00.0").Cable(1), "the driver sets none: all hosts would share it")
	require.Empty(t, nic("506b:4b03:00aa:0000", "").Cable(1), "a soft device")
	vf := nic("506b:4b03:00aa:0000", "0000:3b:00.2")
	vf.VirtualFunction = true
	require.Empty(t, vf.Cable(1), "its number is no port")
}
