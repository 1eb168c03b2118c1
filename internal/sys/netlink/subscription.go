package netlink

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrOverrun means that the kernel had messages for which the socket had no room. They are lost.
var ErrOverrun = errors.New("netlink messages were lost")

// Subscription receives what the kernel sends to a multicast group. Receive and ReceiveMessages are for one goroutine.
type Subscription struct {
	file   *os.File
	buffer []byte
}

// Subscribe opens a socket of a protocol that receives the messages of a group, as unix.RTNLGRP_LINK. A message of another
// process needs CAP_NET_ADMIN (netlink_sendmsg in net/netlink/af_netlink.c), so that senders are not checked. The caller
// closes the Subscription.
func Subscribe(protocol, group int) (*Subscription, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, os.NewSyscallError("open netlink socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (group - 1)}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("bind netlink socket", err)
	}
	// A descriptor that does not block is one of Go's poller, so that Close wakes Receive.
	return &Subscription{os.NewFile(uintptr(fd), "netlink"), make([]byte, messageSize)}, nil
}

// Receive waits for a datagram and returns it, until the next call. The error is ErrOverrun after datagrams were lost, and
// os.ErrClosed after Close.
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

// ReceiveMessages waits for a datagram and calls f for each message in it, with its type. f must not keep the body. The
// errors are those of Receive.
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

// Close closes the socket, and wakes Receive. It may be called concurrently; the error is os.ErrClosed if it was called before.
func (s *Subscription) Close() error { return s.file.Close() }
