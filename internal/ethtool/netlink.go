package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// answerLimit is the longest wait for an answer, in seconds. The kernel queues the answer
	// before send(2) returns, so the limit matters only if the answer was lost.
	answerLimit = 1
	// answerSize is larger than the longest answer, the description of a family with all its
	// operations, which has 1,080 bytes on Linux 6.18.
	answerSize = 16 << 10
	// genericHeader is sizeof(struct genlmsghdr): command, version, reserved.
	genericHeader = 4
)

// conn is a socket of generic netlink, used by one goroutine.
type conn struct {
	fd  int
	seq uint32
}

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, os.NewSyscallError("open netlink socket", err)
	}
	c := &conn{fd: fd}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerLimit}); err != nil {
		c.close()
		return nil, os.NewSyscallError("limit the wait for an answer", err)
	}
	// A connected socket receives from the kernel only, and not from other processes.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		c.close()
		return nil, os.NewSyscallError("connect netlink socket", err)
	}
	return c, nil
}

func (c *conn) close() { _ = unix.Close(c.fd) } // no written data can be lost

// ask sends a request and returns the body of its answer, with the generic header.
func (c *conn) ask(family uint16, command uint8, attributes []byte) ([]byte, error) {
	c.seq++
	size := unix.NLMSG_HDRLEN + genericHeader + len(attributes)
	request := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	request = binary.NativeEndian.AppendUint16(request, family)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST)
	request = binary.NativeEndian.AppendUint32(request, c.seq)
	request = append(request, 0, 0, 0, 0, command, 1, 0, 0) // port: the kernel's choice; version 1
	if _, err := unix.Write(c.fd, append(request, attributes...)); err != nil {
		return nil, os.NewSyscallError("send", err)
	}
	buffer := make([]byte, answerSize)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, unix.MSG_TRUNC) // n is the whole size, also of what did not fit
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("no answer within %d s: %w", answerLimit, os.ErrDeadlineExceeded)
		case err != nil:
			return nil, os.NewSyscallError("receive", err)
		case n > len(buffer):
			return nil, fmt.Errorf("receive: an answer of %d bytes, at most %d are read", n, len(buffer))
		}
		if body, err := answer(buffer[:n], family, c.seq); body != nil || err != nil {
			return body, err
		}
	}
}

// answer returns the body of the answer in a datagram, nil if the datagram has none to this
// request. An error of the kernel is returned as its errno.
func answer(raw []byte, family uint16, seq uint32) ([]byte, error) {
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("read answer: damaged message: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != seq:
		case m.Header.Type == unix.NLMSG_ERROR:
			return nil, refusal(m.Data)
		case m.Header.Type != family || len(m.Data) < genericHeader:
			return nil, fmt.Errorf("read answer: message of type %d with %d bytes", m.Header.Type, len(m.Data))
		default:
			return m.Data, nil
		}
	}
	return nil, nil
}

// refusal returns the error of a message of type NLMSG_ERROR.
func refusal(body []byte) error {
	if len(body) < 4 {
		return errors.New("read answer: an error without a number")
	}
	errno := -int32(binary.NativeEndian.Uint32(body))
	if errno <= 0 {
		return fmt.Errorf("read answer: error %d in place of an answer", errno)
	}
	return unix.Errno(errno)
}

// attribute appends an attribute, padded to four bytes.
func attribute(to []byte, kind uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, uint16(unix.SizeofNlAttr+len(value)))
	to = append(binary.NativeEndian.AppendUint16(to, kind), value...)
	return append(to, make([]byte, aligned(len(value))-len(value))...)
}

// each calls f for each attribute.
func each(raw []byte, f func(kind uint16, value []byte)) error {
	for len(raw) > 0 {
		size := 0
		if len(raw) >= unix.SizeofNlAttr {
			size = int(binary.NativeEndian.Uint16(raw))
		}
		if size < unix.SizeofNlAttr || size > len(raw) {
			return fmt.Errorf("read answer: an attribute of %d bytes in %d", size, len(raw))
		}
		f(binary.NativeEndian.Uint16(raw[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), raw[unix.SizeofNlAttr:size])
		raw = raw[min(aligned(size), len(raw)):]
	}
	return nil
}

func aligned(n int) int { return (n + 3) &^ 3 } // NLA_ALIGN

func text(s string) []byte { return append([]byte(s), 0) }
