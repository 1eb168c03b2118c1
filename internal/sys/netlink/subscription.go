package netlink

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrOverrun means that messages were lost because the socket had no space for them.
var ErrOverrun = errors.New("netlink messages were lost")

// Subscription receives the messages of a multicast group. Only one goroutine may call Receive and ReceiveMessages.
type Subscription struct {
	file   *os.File
	buffer []byte
}

// Subscribe opens a socket of a protocol and subscribes to a group, such as unix.RTNLGRP_LINK. It does not check the senders of
// messages, because other processes need CAP_NET_ADMIN to send (netlink_sendmsg in net/netlink/af_netlink.c). The caller has to
// close the Subscription.
func Subscribe(protocol, group int) (*Subscription, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, os.NewSyscallError("open netlink socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (group - 1)}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("bind netlink socket", err)
	}
	// The descriptor does not block, so that it belongs to Go's poller and Close wakes Receive.
	return &Subscription{os.NewFile(uintptr(fd), "netlink"), make([]byte, messageSize)}, nil
}

// Receive waits for a datagram and returns it. The datagram is valid until the next call. The error is ErrOverrun if datagrams
// were lost, and os.ErrClosed after Close.
func (s *Subscription) Receive() ([]byte, error) {
	n, err := s.file.Read(s.buffer)
	if errors.Is(err, unix.ENOBUFS) {
		return nil, ErrOverrun
	}
	if err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	return s.buffer[:n], nil
}

// ReceiveMessages waits for a datagram and calls f with the type and the body of each message in it. f must not keep the body.
// It returns the errors of Receive, and an error for a damaged message.
func (s *Subscription) ReceiveMessages(f func(kind uint16, body []byte)) error {
	datagram, err := s.Receive()
	if err != nil {
		return err
	}
	messages, err := syscall.ParseNetlinkMessage(datagram)
	if err != nil {
		return fmt.Errorf("read message: damaged: %w", err)
	}
	for _, m := range messages {
		f(m.Header.Type, m.Data)
	}
	return nil
}

// Close closes the socket and wakes Receive. It may be called concurrently. It returns os.ErrClosed if it was called before.
func (s *Subscription) Close() error { return s.file.Close() }
