package monitor

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

const (
	physicalAddress = "0000:3b:00.0"
	virtualAddress  = "0000:3b:00.2"
)

// virtualFunction returns a virtual function of the card at physicalAddress.
func virtualFunction(name string, index int) verbs.Found {
	f := deviceOn(virtualAddress, name, index)
	f.VirtualFunction, f.Parent = true, physicalAddress
	return f
}

func scalableFunction(name string, index int) verbs.Found {
	f := foundDevice(name, index)
	f.VirtualFunction, f.Scalable, f.Parent = true, true, physicalAddress
	return f
}

func deviceNames(s gathered) string {
	var all []string
	for _, d := range s.Devices {
		all = append(all, d.Device)
	}
	return strings.Join(all, " ")
}

func TestFunctionsAloneAreWatched(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", 5), deviceOn("0000:5e:00.0", "mlx5_6", 6))
	s := h.gather()
	require.Equal(t, "mlx5_4 mlx5_5 mlx5_6", deviceNames(s))
	require.Zero(t, s.Collector.FunctionsSkipped)
}

func TestFunctionsBesideTheirPhysicalOneAreCounted(t *testing.T) {
	var log strings.Builder
	h := startMonitor(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Devices = func(name string) bool { return name != "mlx5_7" }
	})
	physical := deviceOn(physicalAddress, "mlx5_0", 0)
	h.reportFound(physical, virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", 5), virtualFunction("mlx5_7", 7))
	s := h.gather()
	require.Equal(t, "mlx5_0", deviceNames(s))
	require.Equal(t, 2, s.Collector.FunctionsSkipped)
	h.reportFound(physical, virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", 5), virtualFunction("mlx5_8", 8))
	require.Equal(t, 3, h.gather().Collector.FunctionsSkipped, "one that comes later")
	h.reportFound(physical)
	require.Zero(t, h.gather().Collector.FunctionsSkipped)
	require.Equal(t, 1, strings.Count(log.String(), "2 virtual or scalable functions are not watched, because their physical functions are visible here"))
	require.Equal(t, 1, strings.Count(log.String(), "not watched"))
}

func TestVirtualFunctionsDecidesAboutScalableOnes(t *testing.T) {
	for want, devices := range map[verbs.VirtualFunctions]string{verbs.VirtualAll: "mlx5_0 mlx5_4 mlx5_5", verbs.VirtualNone: "mlx5_0"} {
		h := startMonitor(t, func(c *Config) { c.VirtualFunctions = want })
		h.reportFound(deviceOn(physicalAddress, "mlx5_0", 0), virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", 5))
		require.Equal(t, devices, deviceNames(h.gather()))
	}
	h := startMonitor(t, func(c *Config) { c.VirtualFunctions = verbs.VirtualNone })
	h.reportFound(virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", 5))
	s := h.gather()
	require.Empty(t, s.Devices)
	require.Equal(t, 2, s.Collector.FunctionsSkipped)
}

func TestWatchedFunctionStaysWhenItsPhysicalOneAppears(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(virtualFunction("mlx5_4", 4))
	h.openDevice(h.sup("mlx5_4", 0), "mlx5_4")
	physical := deviceOn(physicalAddress, "mlx5_0", 5)
	h.reportFound(virtualFunction("mlx5_4", 4), physical)
	d := findDevice(h.gather(), "mlx5_4")
	require.True(t, d.Open)
	require.Zero(t, d.Removals)
	h.reportFound(virtualFunction("mlx5_4", 4), physical, virtualFunction("mlx5_7", 7))
	require.Equal(t, "mlx5_0 mlx5_4", deviceNames(h.gather()), "one that comes later is skipped")

	h.sup("mlx5_4", 0).Ended(status.End{Reason: status.ReasonRemoved})
	h.reportFound(physical)
	h.reportFound(virtualFunction("mlx5_4", 9), physical)
	require.True(t, findDevice(h.gather(), "mlx5_4").Present, "a device that was known is not missing when it comes back")
}

func TestFunctionsStaySkippedWhileTheirPhysicalOneIsGone(t *testing.T) {
	h := startMonitor(t, nil)
	physical := deviceOn(physicalAddress, "mlx5_0", 0)
	h.reportFound(physical, virtualFunction("mlx5_4", 4))
	h.reportFound(virtualFunction("mlx5_4", 4))
	h.reportFound(virtualFunction("mlx5_4", 5), virtualFunction("mlx5_6", 6)) // the driver registers them before the physical function
	s := h.gather()
	require.Equal(t, "mlx5_0", deviceNames(s))
	require.Equal(t, 2, s.Collector.FunctionsSkipped)
	require.Len(t, h.sups, 1)

	h = startMonitor(t, nil)
	h.reportFound(physical)
	h.reportFound()
	h.reportFound(virtualFunction("mlx5_4", 4)) // the first of the card
	require.Equal(t, "mlx5_0", deviceNames(h.gather()))
}

func TestFunctionOfAPortInALAGStaysSkipped(t *testing.T) {
	h := startMonitor(t, nil)
	vf := virtualFunction("mlx5_4", 4)
	vf.Parent, vf.ParentNetDev = "0000:3b:00.1", true
	h.reportFound(deviceOn(physicalAddress, "mlx5_bond_0", 0), vf)
	vf.ParentNetDev = false
	h.reportFound(vf)
	require.Equal(t, "mlx5_bond_0", deviceNames(h.gather()))
}

// In exclusive mode, a pod that owns a function sees that the other functions are in other network namespaces.
func TestFunctionInAPodIsWatchedBesideThoseOfOtherPods(t *testing.T) {
	h := startMonitor(t, nil)
	own, other, physical := virtualFunction("mlx5_4", 4), scalableFunction("mlx5_5", -1), deviceOn(physicalAddress, "mlx5_0", -1)
	own.Netns, other.Netns, physical.Netns = verbs.NetnsOwn, verbs.NetnsOther, verbs.NetnsOther
	h.reportFound(own, other, physical)
	s := h.gather()
	require.Equal(t, "mlx5_0 mlx5_4", deviceNames(s))
	require.Equal(t, status.ReasonOtherNetns, s.Devices[0].Reason)
	require.Equal(t, status.ReasonStarting, s.Devices[1].Reason)
	require.Zero(t, s.Collector.FunctionsSkipped)
	own.Netns = verbs.NetnsOther
	h.reportFound(own, other, physical)
	require.Equal(t, "mlx5_0 mlx5_4", deviceNames(h.gather()), "one that was here is not forgotten")
}
