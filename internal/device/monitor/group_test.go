package monitor

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// expectCards makes the configuration expect count devices of the card family.
func expectCards(count int) func(*Config) {
	return func(c *Config) {
		c.Groups = []Group{{Label: "mlx5_[0-7]", Count: count, Matches: func(name string) bool { return strings.HasPrefix(name, "mlx5_") }}}
	}
}

func requireLacking(t *testing.T, h *harness, missing int, of string) {
	t.Helper()
	c := h.gather().Collector
	require.True(t, c.Counted)
	require.Equal(t, missing, c.ExpectedMissing)
	require.Equal(t, of, c.ExpectedMissingOf)
}

func TestTooFewDevicesAreMissingFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, expectCards(3))
		require.False(t, h.gather().Collector.Counted, "before the devices have been looked for")
		h.reportFound()
		requireLacking(t, h, 3, "3 of 3 that match mlx5_[0-7]")
		h.reportFound(sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1), sharedDevice("bnxt_re0", 2))
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
		h.reportFound(sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1), sharedDevice("mlx5_2", 3), sharedDevice("mlx5_3", 4))
		requireLacking(t, h, 0, "")
		h.reportFound(sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1))
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
	})
}

func TestNoGroupIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, nil)
		h.reportFound(sharedDevice("mlx5_0", 0))
		require.False(t, h.gather().Collector.Counted)
	})
}

func TestReleasedAndBorrowedDevicesAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, expectCards(3))
		h.reportFound(exclusiveDevice("mlx5_0", 0), exclusiveDevice("mlx5_1", 1), movedDevice("mlx5_2", 2))
		requireLacking(t, h, 0, "")
		releases.set("mlx5_1", true)
		h.review()
		h.reportFound(exclusiveDevice("mlx5_0", 0), movedDevice("mlx5_2", 2)) // its driver is unloaded
		requireLacking(t, h, 0, "")
		releases.set("mlx5_1", false)
		h.review()
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
	})
}

func TestFunctionsThatAreNotWatchedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, expectCards(2))
		h.reportFound(deviceOn(physicalAddress, "mlx5_0", 0), virtualFunction("mlx5_4", 4))
		requireLacking(t, h, 1, "1 of 2 that match mlx5_[0-7]")
	})
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, func(c *Config) {
			expectCards(2)(c)
			c.VirtualFunctions = verbs.VirtualAll
		})
		h.reportFound(deviceOn(physicalAddress, "mlx5_0", 0), virtualFunction("mlx5_4", 4))
		requireLacking(t, h, 0, "")
	})
}

func TestDeviceOfAnotherDriverIsMissingInItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startMonitor(t, func(c *Config) {
			expectCards(2)(c)
			c.Function = func(string) verbs.PCIFunction { return verbs.PCIFunction{Driver: "vfio-pci"} }
		})
		h.reportFound(sharedDevice("mlx5_0", 0), sharedDevice("mlx5_1", 1))
		h.reportFound(sharedDevice("mlx5_0", 0))
		requireLacking(t, h, 1, "1 of 2 that match mlx5_[0-7]")
	})
}
