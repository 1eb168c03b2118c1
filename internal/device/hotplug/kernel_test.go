package hotplug

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
	"rdma_events/tests/prerequisite"
)

// subscribeKernel returns a subscription to the uevents of this machine.
func subscribeKernel(t *testing.T) Source {
	t.Helper()
	source, err := SubscribeUevents()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		prerequisite.Missing(t, prerequisite.Netlink, "netlink sockets are refused: "+err.Error())
	}
	require.NoError(t, err)
	return source
}

func TestClosingKernelUeventsWakesReceive(t *testing.T) {
	source := subscribeKernel(t)
	done := make(chan error)
	go func() {
		for {
			if _, err := source.Receive(); err != nil && !errors.Is(err, netlink.ErrOverrun) {
				done <- err
				return
			}
		}
	}()
	require.NoError(t, source.Close())
	require.ErrorIs(t, <-done, os.ErrClosed)
}

func TestReceiveOnTheKernelsSocketEndsWithItsContext(t *testing.T) {
	source := subscribeKernel(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- receiveUevents(ctx, source, func(*uevent) {}) }()
	cancel()
	require.NoError(t, <-done)
	require.ErrorIs(t, source.Close(), os.ErrClosed)
}
