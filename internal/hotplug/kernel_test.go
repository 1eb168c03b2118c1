package hotplug

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/tests/prerequisite"
)

// kernel returns a subscription to this machine's uevents.
func kernel(t *testing.T) Source {
	t.Helper()
	source, err := KernelUevents()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		prerequisite.Missing(t, prerequisite.Netlink, "netlink sockets are refused: "+err.Error())
	}
	require.NoError(t, err)
	return source
}

func TestClosingKernelUeventsWakesReceive(t *testing.T) {
	source := kernel(t)
	done := make(chan error)
	go func() {
		for {
			if _, err := source.Receive(); err != nil && !errors.Is(err, ErrOverrun) {
				done <- err
				return
			}
		}
	}()
	require.NoError(t, source.Close())
	require.ErrorIs(t, <-done, os.ErrClosed)
}

func TestReceiveOnTheKernelsSocketEndsWithItsContext(t *testing.T) {
	source := kernel(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- receive(ctx, source, func(*uevent) {}) }()
	cancel()
	require.NoError(t, <-done)
	require.ErrorIs(t, source.Close(), os.ErrClosed)
}

// TestAnOverrunSocketIsReportedAndStaysUsable fills a socket of the netlink
// family to which every user may send. It overruns as a uevent socket does.
func TestAnOverrunSocketIsReportedAndStaysUsable(t *testing.T) {
	const group = 1 << 27 // a group that no other process is likely to use
	source := newKernelUevents(userSocket(t, group))
	defer func() { _ = source.Close() }()
	require.NoError(t, source.file.SetReadDeadline(time.Now().Add(time.Minute)))
	sender := userSocket(t, 0)
	defer func() { _ = unix.Close(sender) }()
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: group}

	for range 10_000 {
		// The message goes to the group and then to the kernel, which does not listen here.
		err := unix.Sendto(sender, joined(nodeEvent("add", "uverbs0")), 0, to)
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	}
	_, err := source.Receive()
	require.ErrorIs(t, err, ErrOverrun)

	got, err := source.Receive() // the message that was queued before
	require.NoError(t, err)
	require.Equal(t, joined(nodeEvent("add", "uverbs0")), got)
}

func userSocket(t *testing.T, groups uint32) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_USERSOCK)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		prerequisite.Missing(t, prerequisite.Netlink, "netlink sockets are refused: "+err.Error())
	}
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}))
	return fd
}
