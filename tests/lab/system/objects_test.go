//go:build guest

package system

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/nldev"
	"rdma_events/tests/lab/guest"
)

// numbers are the names that `rdma resource show` has for the number of an object and for that of its parent.
var numbers = map[nldev.Kind][2]string{
	nldev.Contexts: {"ctxn", ""}, nldev.ProtectionDomains: {"pdn", "ctxn"}, nldev.CompletionQueues: {"cqn", "ctxn"},
	nldev.SharedReceiveQueues: {"srqn", "pdn"}, nldev.QueuePairs: {"lqpn", "pdn"},
}

func TestObjectsAreThoseOfRDMAResource(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	guest.AddRxe(t, device, netdev)
	a := &readded{device: device, netdev: netdev}
	connectQueuePair(t, a.index(t, a.address(t)))
	var all []nldev.Object
	for kind := range numbers {
		objects := dumpedObjects(t, device, kind)
		require.ElementsMatch(t, shownObjects(t, kind, device), objects, kind)
		counts, err := nldev.QueryResources(device)
		require.NoError(t, err)
		require.EqualValues(t, counts[string(kind)], len(objects), kind)
		require.Equal(t, objects, withoutCapabilities(t, func() []nldev.Object { return dumpedObjects(t, device, kind) }), kind)
		all = append(all, objects...)
	}
	holders := nldev.Holders(all)
	pairs := 0
	for i, o := range all {
		require.NotEqual(t, nldev.Holder{}, holders[i], "%+v", o)
		if o.Kind == nldev.QueuePairs && o.Kernel == "" {
			pairs++
			require.Equal(t, nldev.RTS, o.State)
			require.True(t, o.HasParent)
		}
	}
	require.Positive(t, pairs, "the program holds queue pairs")
	stop := errors.New("stop")
	require.ErrorIs(t, nldev.Dump(device, nldev.ProtectionDomains, func(nldev.Object) error { return stop }), stop)
	require.ErrorIs(t, nldev.Dump("rdma9", nldev.QueuePairs, nil), nldev.ErrNoDevice)
}

func TestObjectsAreWithoutAThreadThatHasEnded(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	guest.AddRxe(t, device, netdev)
	a := &readded{device: device, netdev: netdev}
	index := a.index(t, a.address(t))
	onThreadThatEnds(func() { connectQueuePair(t, index) })
	users := func(kind nldev.Kind) []nldev.Object {
		return slices.DeleteFunc(dumpedObjects(t, device, kind), func(o nldev.Object) bool { return o.Kernel != "" })
	}
	guest.Eventually(t, "the thread has ended", 20*time.Second, func() bool {
		contexts := users(nldev.Contexts)
		return len(contexts) == 1 && contexts[0].Thread == 0
	})
	all := slices.Concat(users(nldev.Contexts), users(nldev.ProtectionDomains), users(nldev.QueuePairs))
	require.GreaterOrEqual(t, len(all), 3)
	for i, h := range nldev.Holders(all) {
		require.Equal(t, nldev.Holder{}, h, "%+v", all[i])
	}
	require.ElementsMatch(t, shownObjects(t, nldev.QueuePairs, device), dumpedObjects(t, device, nldev.QueuePairs))
}

// onThreadThatEnds runs f on a thread that ends with its goroutine. Go keeps the process's first thread for ever, so that
// a goroutine on it holds it while another one runs f.
func onThreadThatEnds(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		onThreadThatEnds(f)
	}()
	<-done
}

// withoutCapabilities runs f on a thread that none of its capabilities is effective for meanwhile. The thread goes on, as
// it may be the one that created objects.
func withoutCapabilities[T any](t *testing.T, f func() T) T {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &had[0]))
	none := had
	none[0].Effective, none[1].Effective = 0, 0
	require.NoError(t, unix.Capset(&header, &none[0]))
	defer func() { require.NoError(t, unix.Capset(&header, &had[0])) }()
	return f()
}

func dumpedObjects(t *testing.T, device string, kind nldev.Kind) []nldev.Object {
	t.Helper()
	var objects []nldev.Object
	require.NoError(t, nldev.Dump(device, kind, func(o nldev.Object) error {
		objects = append(objects, o)
		return nil
	}))
	require.True(t, slices.IsSortedFunc(objects, func(a, b nldev.Object) int {
		if a.Kernel != b.Kernel {
			return 0
		}
		return int(a.Number) - int(b.Number)
	}))
	return objects
}

// shownObjects returns the objects as iproute2 shows them.
func shownObjects(t *testing.T, kind nldev.Kind, device string) []nldev.Object {
	t.Helper()
	names := numbers[kind]
	var objects []nldev.Object
	for _, fields := range guest.Resources(t, string(kind), device) {
		number := func(name string) (uint32, bool) {
			n, ok := fields[name].(float64)
			return uint32(n), ok
		}
		o := nldev.Object{Kind: kind, State: nldev.StateUnknown}
		o.Number, _ = number(names[0])
		o.Parent, o.HasParent = number(names[1])
		thread, ok := number("pid")
		o.Thread = int(thread)
		if !ok {
			module, _ := fields["comm"].(string)
			o.Kernel = strings.Trim(module, "[]")
		}
		if state, ok := fields["state"].(string); ok {
			o.State = map[string]nldev.State{
				"RESET": nldev.Reset, "INIT": nldev.Init, "RTR": nldev.RTR, "RTS": nldev.RTS, "SQD": nldev.SQD, "SQE": nldev.SQE, "ERR": nldev.Error,
			}[state]
		}
		objects = append(objects, o)
	}
	return objects
}
