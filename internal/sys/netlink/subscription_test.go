package netlink

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/tests/prerequisite"
)

// TestAnOverrunSocketIsReportedAndStaysUsable fills a socket of the protocol to which every user may send.
func TestAnOverrunSocketIsReportedAndStaysUsable(t *testing.T) {
	const group = 28 // a group that no other process is likely to use
	s, err := Subscribe(unix.NETLINK_USERSOCK, group)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		prerequisite.Missing(t, prerequisite.Netlink, "netlink sockets are refused: "+err.Error())
	}
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	require.NoError(t, s.file.SetReadDeadline(time.Now().Add(time.Minute)))
	sender, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	require.NoError(t, err)
	defer func() { _ = unix.Close(sender) }()

	for range 10_000 {
		// The message goes to the group and then to the kernel, which does not listen here.
		err := unix.Sendto(sender, newMessage(testKind, testSeq, []byte("body")), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (group - 1)})
		require.ErrorIs(t, err, unix.ECONNREFUSED)
	}
	_, err = s.Receive()
	require.ErrorIs(t, err, ErrOverrun)

	queued, err := s.Receive()
	require.NoError(t, err)
	require.Equal(t, newMessage(testKind, testSeq, []byte("body")), queued)
	var bodies []string
	require.NoError(t, s.ReceiveMessages(func(kind uint16, body []byte) {
		require.EqualValues(t, testKind, kind)
		bodies = append(bodies, string(body))
	}))
	require.Equal(t, []string{"body"}, bodies)
}
