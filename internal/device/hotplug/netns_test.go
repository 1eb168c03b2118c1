package hotplug

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// setMode sets the mode of network namespaces: "Y" is shared, "N" exclusive.
func (h *host) setMode(mode string) {
	h.t.Helper()
	h.write(filepath.Join(h.sysfs, "module/ib_core/parameters/netns_mode"), mode+"\n")
}

// moveAway moves a device to another network namespace: its node stays.
func (h *host) moveAway(name string) {
	h.t.Helper()
	h.unlink("infiniband", name)
	h.setIndex(name, -1)
}

func TestDeviceOfAnotherNamespaceIsFoundByItsNode(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.setMode("N")
		h.add("mlx5_0", "uverbs1", "0c42:a103:0065:bafe", 1)
		h.add("rxe0", "uverbs0", guid, 0)
		function := filepath.Join(h.sysfs, "devices/0000:3b:00.3")
		h.write(filepath.Join(function, "physfn"), "")
		require.NoError(t, os.Symlink("../bus/pci/drivers/mlx5_core", filepath.Join(function, "driver")))
		require.NoError(t, os.Symlink(function, filepath.Join(h.sysfs, "devices/virtual/infiniband_verbs/uverbs1/device")))
		w := watchHost(t, h.config(u.open))
		own, other := rxe0, verbs.Found{
			Name: "mlx5_0", Index: 1, Node: "uverbs1", NodeGUID: "0c42:a103:0065:bafe", Netns: verbs.NetnsOwn, Soft: true,
		}
		own.Netns = verbs.NetnsOwn
		require.True(t, other.Usable())
		w.expect(time.Second, []verbs.Found{other, own})

		h.moveAway("mlx5_0")
		u.send(deviceEvent("remove", "mlx5_0")...)
		other = verbs.Found{
			Name: "mlx5_0", Index: -1, Node: "uverbs1", PCI: "0000:3b:00.3", Driver: "mlx5_core", VirtualFunction: true,
			Netns: verbs.NetnsOther,
		}
		require.False(t, other.Usable())
		w.expect(time.Second, []verbs.Found{other, own})

		h.moveAway("rxe0")
		u.send(deviceEvent("remove", "rxe0")...)
		own = verbs.Found{Name: "rxe0", Index: -1, Node: "uverbs0", Netns: verbs.NetnsOther, Soft: true}
		w.expect(time.Second, []verbs.Found{other, own})

		h.unlink("infiniband_verbs", "uverbs1")
		u.send(nodeEvent("remove", "uverbs1")...)
		w.expect(time.Second, []verbs.Found{own})
		require.Empty(t, w.warned)
	})
}

// While the kernel registers a device in shared mode, a namespace has its node shortly before it has the device.
func TestNoDeviceIsElsewhereInSharedMode(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.setMode("Y")
		h.add("rxe0", "uverbs0", guid, 0)
		h.addNode("rxe1", "uverbs1")
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})
	})
}

// The device moves to another namespace between the readings of the two classes.
func TestDeviceThatMovesDuringAScanIsLookedAtAgain(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.setMode("N")
		h.add("rxe0", "uverbs0", guid, 0)
		cfg := h.config(u.open)
		moved := false
		cfg.Indexes = func() (map[string]int, error) {
			if !moved {
				moved = true
				h.moveAway("rxe0")
			}
			return h.readIndexes()
		}
		w := watchHost(t, cfg)
		w.expect(time.Second, []verbs.Found{{Name: "rxe0", Index: -1, Node: "uverbs0", Netns: verbs.NetnsOther, Soft: true}})
	})
}
