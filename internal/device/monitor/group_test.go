package monitor

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// expecting makes the configuration expect so many devices of the card family.
func expecting(count int) func(*Config) {
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
		h := start(t, expecting(3))
		require.False(t, h.gather().Collector.Counted, "before the devices have been looked for")
		h.finds()
		requireLacking(t, h, 3, "3 of 3 that match mlx5_[0-7]")
		h.finds(card("mlx5_0", 0), card("mlx5_1", 1), card("bnxt_re0", 2))
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
		h.finds(card("mlx5_0", 0), card("mlx5_1", 1), card("mlx5_2", 3), card("mlx5_3", 4))
		requireLacking(t, h, 0, "")
		h.finds(card("mlx5_0", 0), card("mlx5_1", 1))
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
	})
}

func TestNoGroupIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, nil)
		h.finds(card("mlx5_0", 0))
		require.False(t, h.gather().Collector.Counted)
	})
}

func TestReleasedAndBorrowedDevicesAreAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, releases := startReleasing(t, expecting(3))
		h.finds(here("mlx5_0", 0), here("mlx5_1", 1), away("mlx5_2", 2))
		requireLacking(t, h, 0, "")
		releases.set("mlx5_1", true)
		h.review()
		h.finds(here("mlx5_0", 0), away("mlx5_2", 2)) // its driver is unloaded
		requireLacking(t, h, 0, "")
		releases.set("mlx5_1", false)
		h.review()
		requireLacking(t, h, 1, "1 of 3 that match mlx5_[0-7]")
	})
}

func TestFunctionsThatAreNotWatchedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, expecting(2))
		h.finds(on(physicalAddress, "mlx5_0", 0), virtual("mlx5_4", 4))
		requireLacking(t, h, 1, "1 of 2 that match mlx5_[0-7]")
	})
	synctest.Test(t, func(t *testing.T) {
		h := start(t, func(c *Config) {
			expecting(2)(c)
			c.VirtualFunctions = verbs.VirtualAll
		})
		h.finds(on(physicalAddress, "mlx5_0", 0), virtual("mlx5_4", 4))
		requireLacking(t, h, 0, "")
	})
}

func TestDeviceOfAnotherDriverIsMissingInItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, func(c *Config) {
			expecting(2)(c)
			c.Function = func(string) verbs.PCIFunction { return verbs.PCIFunction{Driver: "vfio-pci"} }
		})
		h.finds(card("mlx5_0", 0), card("mlx5_1", 1))
		h.finds(card("mlx5_0", 0))
		requireLacking(t, h, 1, "1 of 2 that match mlx5_[0-7]")
	})
}
