package hotplug

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

var _ session.RemovalWatcher = removable{}

// deaf is a Backend whose only method is Open.
type deaf struct{ opened string }

func (d *deaf) Open(name string, _ *ledger.Ledger) (verbs.Device, error) {
	d.opened = name
	return nil, verbs.ErrNoDevice
}

func waitRemoved(t *testing.T, cfg Config) (done chan error, cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	w, ok := Removable(&deaf{}, cfg).(session.RemovalWatcher)
	require.True(t, ok)
	go func() { done <- w.WaitRemoved(ctx, "rxe0") }()
	t.Cleanup(cancel)
	return done, cancel
}

func TestARemovableBackendOpensAsTheOneItIsMadeOf(t *testing.T) {
	d := &deaf{}
	_, err := Removable(d, newHost(t).config(refuseSource)).Open("rxe0", nil)
	require.ErrorIs(t, err, verbs.ErrNoDevice)
	require.Equal(t, "rxe0", d.opened)
}

func TestARemovableBackendSeesTheRemovalOfADeviceByItsName(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	h.add("rxe1", "uverbs1", guid, 1)
	done, _ := waitRemoved(t, h.patient(u.open))
	u.send(nodeEvent("remove", "uverbs1")...)
	u.send(nodeEvent("change", "uverbs0")...) // the uevent before has been handled
	require.Empty(t, done)
	u.send(nodeEvent("remove", "uverbs0")...)
	require.NoError(t, <-done)
}

func TestADeviceThatIsGoneBeforeItIsWatchedIsRemoved(t *testing.T) {
	done, _ := waitRemoved(t, newHost(t).patient(refuseSource))
	require.NoError(t, <-done)
}

func TestWaitingForARemovalEndsWithItsContext(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	done, cancel := waitRemoved(t, h.patient(u.open))
	u.send(nodeEvent("change", "uverbs0")...) // it is watching
	cancel()
	require.Equal(t, context.Canceled, <-done)
}

func TestADeviceWhoseNodeCannotBeReadIsStillWatched(t *testing.T) {
	h := hostWithRxe(t)
	class := filepath.Join(h.sysfs, "class/infiniband_verbs")
	require.NoError(t, os.RemoveAll(class))
	h.write(class, "not a directory")
	warned := make(chan error, 1)
	cfg := h.patient(newUevents().open)
	cfg.Warn = func(err error) { warned <- err }
	done, cancel := waitRemoved(t, cfg)
	require.ErrorContains(t, <-warned, "removal of rxe0 may be detected late: ")
	select {
	case err := <-done:
		require.FailNow(t, "its worker would end", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	require.Equal(t, context.Canceled, <-done)
}

// The file exists and cannot be read for some time, as while descriptors are short.
func TestDeviceWhoseNodeNameCannotBeReadIsWatchedLater(t *testing.T) {
	h, u := hostWithRxe(t), newUevents()
	file := filepath.Join(h.sysfs, "devices/virtual/infiniband_verbs/uverbs0/ibdev")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink(file, file))
	warned := make(chan error, 1)
	cfg := h.config(u.open)
	cfg.Rescan, cfg.Warn = 10*time.Millisecond, func(err error) { warned <- err }
	done, _ := waitRemoved(t, cfg)
	require.ErrorContains(t, <-warned, "removal of rxe0 may be detected late: ")
	require.Empty(t, done)
	require.NoError(t, os.Remove(file))
	h.write(file, "rxe0\n")
	u.send(nodeEvent("remove", "uverbs0")...)
	require.NoError(t, <-done)
}
