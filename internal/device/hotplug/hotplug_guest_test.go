//go:build guest

package hotplug

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/netlink"
	"rdma_events/tests/lab/guest"
)

func runRDMA(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "rdma", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run rdma %q: %w: %s", args, err, out)
	}
	return nil
}

func renameDevice(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, runRDMA(t.Context(), "dev", "set", from, "name", to))
}

// addRxe makes a soft device rxe0 on d0 and returns its node.
func addRxe(t *testing.T) string {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddRxe(t, "rxe0", "d0")
	node, err := sysfs.New("/sys").Node("rxe0")
	require.NoError(t, err)
	return node
}

// nextUsable returns the device with a name from the first set in which it has a node.
func nextUsable(t *testing.T, sets <-chan []verbs.Found, name string) verbs.Found {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case found := <-sets:
			t.Logf("%+v", found)
			i := slices.IndexFunc(found, func(f verbs.Found) bool { return f.Name == name && f.Usable() })
			if i >= 0 {
				return found[i]
			}
		case <-deadline:
			require.FailNow(t, "not reported", name)
		}
	}
}

func TestOnARealKernelDevicesAreFoundRenamedAndReplaced(t *testing.T) {
	node := addRxe(t)
	ctx, cancel := context.WithCancel(t.Context())
	sets, done := make(chan []verbs.Found, 16), make(chan error, 1)
	cfg := Config{Rescan: time.Hour, Warn: func(err error) { t.Error(err) }}
	go func() { done <- New(cfg).Run(ctx, func(found []verbs.Found) { sets <- found }) }()
	defer func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}()

	first := nextUsable(t, sets, "rxe0")
	require.Equal(t, node, first.Node)
	require.GreaterOrEqual(t, first.Index, 0)
	require.Len(t, first.NodeGUID, len("e01f:e5ff:fe51:e9c2"))
	require.False(t, first.VirtualFunction)

	renameDevice(t, "rxe0", "moved")
	require.True(t, first.Same(nextUsable(t, sets, "moved")))

	guest.DeleteLink(t, "moved")
	guest.AddLink(t, "rxe0", "rxe", "d0")
	successor := nextUsable(t, sets, "rxe0")
	require.Equal(t, first.Node, successor.Node)
	require.False(t, first.Same(successor))
}

func TestOnARealKernelARemovalIsNoticedWhileTheDeviceIsHeld(t *testing.T) {
	nowhere := t.TempDir()
	require.True(t, UeventsReach())
	for _, row := range []struct {
		name string
		cfg  Config
	}{
		{"by what suits this kernel", Config{Rescan: time.Hour}},
		{"by either", Config{Rescan: time.Hour, UeventsReach: func() bool { return false }}},
		{"by uevents alone", Config{Rescan: time.Hour, DevRoot: nowhere}},
		{"by inotify alone", Config{Rescan: time.Hour, Uevents: refuseSource}},
	} {
		t.Run(row.name, func(t *testing.T) {
			node := addRxe(t)
			held, err := os.Open(filepath.Join("/dev/infiniband", node))
			require.NoError(t, err)
			defer func() { _ = held.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			noticed := make(chan error, 1)
			go func() { noticed <- WatchRemoval(ctx, row.cfg, node) }()

			disturbDevice(t, node)
			select {
			case err := <-noticed:
				require.FailNow(t, "fired early", "%v", err)
			case <-time.After(2 * time.Second): // past the checks that follow hintDoubt
			}
			deleteHeld(ctx, t, held, noticed)
		})
	}
}

// disturbDevice changes a device in ways that must not be taken for its removal.
func disturbDevice(t *testing.T, node string) {
	t.Helper()
	guest.IP(t, "link", "set", "d0", "down")
	guest.IP(t, "link", "set", "d0", "up")
	renameDevice(t, "rxe0", "moved")
	renameDevice(t, "moved", "rxe0")
	writeUevent(t, node, "remove")
	path := filepath.Join("/dev/infiniband", node)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.Rename(path+".old", path))
}

// deleteHeld deletes the device while it is open, and closes it when WatchRemoval detects
// the removal.
func deleteHeld(ctx context.Context, t *testing.T, held *os.File, noticed <-chan error) {
	t.Helper()
	deleted := make(chan error, 1)
	start := time.Now()
	go func() { deleted <- runRDMA(ctx, "link", "delete", "rxe0") }()
	require.NoError(t, <-noticed)
	t.Logf("noticed %v after the command was started", time.Since(start))
	require.NoError(t, held.Close())
	require.NoError(t, <-deleted)
	t.Logf("it has ended after %v", time.Since(start))
}

// writeUevent makes the kernel send a synthetic uevent, which reports no change.
func writeUevent(t *testing.T, node, action string) {
	t.Helper()
	path := filepath.Join("/sys/class/infiniband_verbs", node, "uevent")
	require.NoError(t, os.WriteFile(path, []byte(action), 0o644))
}

func TestOnARealKernelAnOverrunOfUeventsIsReported(t *testing.T) {
	node := addRxe(t)
	source, err := SubscribeUevents()
	require.NoError(t, err)
	defer func() { _ = source.Close() }()
	for range 2000 {
		writeUevent(t, node, "change")
	}
	_, err = source.Receive()
	require.ErrorIs(t, err, netlink.ErrOverrun)
	text, err := source.Receive()
	require.NoError(t, err)
	u, ok := parseUevent(text)
	require.True(t, ok)
	require.Equal(t, "infiniband/"+node, u.node)
	require.True(t, u.synthetic)
}

func TestOnARealKernelSysfsDescribesASoftDevice(t *testing.T) {
	addRxe(t)
	sysfs := sysfs.New("/sys")

	attr := sysfs.Device("rxe0")
	require.Equal(t, "rdma_rxe", attr.Driver)
	require.Equal(t, "infiniband", attr.Transport)
	require.Equal(t, -1, attr.NUMANode)
	require.Empty(t, attr.PCIAddress)
	require.True(t, attr.EventsSupported)

	guest.IP(t, "link", "set", "d0", "down")
	port := verbs.PortAttr{LinkLayer: verbs.LinkEthernet}
	sysfs.Port("rxe0", 1, &port)
	require.Equal(t, verbs.PortAttr{
		LinkLayer: verbs.LinkEthernet, NetDev: "d0", Width: "1x", RateGbps: 2.5,
		LinkDowned: 1, HasLinkDowned: true,
	}, port)
}
