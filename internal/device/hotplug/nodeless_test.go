package hotplug

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/netlink"
)

const smiGUID = "b8e9:2403:00aa:0001"

var smi0 = verbs.Found{
	Name: "smi0", Index: 1, NodeGUID: smiGUID, Soft: true,
	Unwatchable: "it is an SMI sub-device of mlx5_0, for subnet management alone: no program can open it",
}

func TestSMISubDeviceIsUnwatchableAtOnce(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		h.add("smi0", "", smiGUID, 1)
		h.setType("smi0", Type{SMI: true, Parent: "mlx5_0"})
		w := watchHost(t, h.config(u.open))
		w.expect(time.Hour, []verbs.Found{rxe0, smi0})
	})
}

// ib_uverbs makes nodes for all devices but sub-devices. A missing node of another device is a fault.
func TestDeviceOfNoTypeWithoutNodeIsNeverUnwatchable(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Hour, []verbs.Found{{Name: "rxe0", Index: 0, NodeGUID: guid, Soft: true}})
	})
}

// RDMA netlink may be forbidden, or may not list the device.
func TestNodeIsAwaitedWhereNetlinkIsSilent(t *testing.T) {
	unknown := verbs.Found{Name: "smi0", Index: -1, NodeGUID: smiGUID, Soft: true}
	pending, gone := unknown, unknown
	pending.Pending = true
	gone.Unwatchable = "ib_uverbs is loaded and makes no node for it, as for a sub-device: no program can open it"
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("smi0", "", smiGUID, -1)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{pending})
		u.send(deviceEvent("change", "smi0")...)
		w.expect(time.Second)
		w.expect(time.Minute, []verbs.Found{gone})

		h.addNode("smi0", "uverbs7")
		u.send(nodeEvent("add", "uverbs7")...)
		usable := unknown
		usable.Node = "uverbs7"
		w.expect(time.Second, []verbs.Found{usable})
	})
}

func TestNodeThatIsLostDoesNotMakeADeviceUnwatchable(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Second, []verbs.Found{rxe0})

		// The kernel waits for a process that has the device open; RDMA netlink no longer lists the device.
		h.unlink("infiniband_verbs", "uverbs0")
		h.setIndex("rxe0", -1)
		w.expect(time.Hour, []verbs.Found{{Name: "rxe0", Index: -1, NodeGUID: guid, Soft: true}})
	})
}

func TestWithoutUverbsNoDeviceIsUnwatchable(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		require.NoError(t, os.RemoveAll(filepath.Join(h.sysfs, "class/infiniband_verbs")))
		h.add("smi0", "", smiGUID, -1)
		w := watchHost(t, h.config(u.open))
		w.expect(time.Hour, []verbs.Found{{Name: "smi0", Index: -1, NodeGUID: smiGUID, Soft: true}})
	})
}

func TestShortageWhileTypesAreAskedKeepsTheLastSet(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		cfg := h.config(u.open)
		cfg.Types = func() (map[string]Type, error) { return nil, unix.EMFILE }
		w := watchHost(t, cfg)
		w.expect(time.Second, []verbs.Found{rxe0})
		h.add("smi0", "", smiGUID, -1)
		w.expect(time.Hour)
		require.Len(t, w.warned, 1)
		require.Contains(t, w.warned[0], "RLIMIT_NOFILE")
	})
}

func TestTypesAreReadFromNetlink(t *testing.T) {
	attribute := func(kind uint16, value []byte) []byte { return netlink.Attribute(nil, kind, value) }
	types := map[string]Type{}
	for _, body := range [][]byte{
		slices.Concat(attribute(nldevDevName, netlink.Text("mlx5_0")), attribute(101, []byte{0})), // RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE
		slices.Concat(attribute(nldevDevName, netlink.Text("smi0")), attribute(99, []byte{1}), attribute(100, netlink.Text("mlx5_0"))),
		slices.Concat(attribute(nldevDevName, netlink.Text("new0")), attribute(99, []byte{2})),
		slices.Concat(attribute(nldevDevName, netlink.Text("short0")), attribute(99, nil)),
		attribute(99, []byte{1}),
	} {
		require.NoError(t, parseType(body, types))
	}
	require.Equal(t, map[string]Type{"mlx5_0": {}, "smi0": {SMI: true, Parent: "mlx5_0"}, "new0": {}, "short0": {}}, types)
	require.Error(t, parseType([]byte{1}, types))
}
