//go:build guest

package native_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/rawverbs"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// The list shows the thread that holds each object, and the state of each queue pair.
func TestObjectsOfThisThreadAreCountedByState(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	guest.AddRxe(t, device, netdev)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	led, f, err := ledger.New("objects")
	require.NoError(t, err)
	defer func() { require.NoError(t, led.Close()) }()
	require.NoError(t, f.Close())
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	require.NoError(t, err)
	defer func() { require.NoError(t, dev.Close(10*time.Second)) }()
	for _, o := range []struct{ srq, connected, failed bool }{{connected: true}, {connected: true, failed: true}, {srq: true}} {
		objects, err := rawverbs.New(native.Context(dev), rawverbs.Options{Completions: 8, SRQ: o.srq})
		require.NoError(t, err)
		defer func() { require.NoError(t, objects.Destroy()) }()
		if o.connected {
			require.NoError(t, objects.Connect())
		}
		if o.failed {
			require.NoError(t, objects.Move(rawverbs.Error))
		}
	}
	own := func() verbs.Holder {
		o, err := dev.ListObjects(verbs.ObjectContext, verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectSRQ, verbs.ObjectQP)
		require.NoError(t, err)
		for _, h := range o.Holders {
			if h.Thread == unix.Gettid() {
				return h
			}
		}
		t.Fatalf("thread %d holds nothing in %+v", unix.Gettid(), o.Holders)
		return verbs.Holder{}
	}
	require.Equal(t, verbs.Holder{
		Thread: unix.Gettid(), Counts: [verbs.ObjectKinds]uint32{1, 3, 3, 1, 3}, States: [verbs.QPStates]uint32{0: 1, 3: 1, 6: 1},
	}, own())
}
