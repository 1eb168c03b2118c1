package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// messageSize is the size of the largest datagram that the kernel sends: it limits the parts
// of a dump to 32 KiB (netlink_recvmsg in net/netlink/af_netlink.c).
const messageSize = 32 << 10

// Conn is a netlink socket, used by one goroutine.
type Conn struct {
	fd    int
	seq   uint32
	limit time.Duration
}

// Dial opens a socket of a protocol, as unix.NETLINK_RDMA, which may load a module of the
// kernel. limit is the longest wait for a part of an answer. The kernel queues the first part
// before it returns from the request, so that the limit matters only if one was lost. The
// caller closes the Conn.
func Dial(protocol int, limit time.Duration) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, os.NewSyscallError("open netlink socket", err)
	}
	c := &Conn{fd: fd, limit: limit}
	wait := unix.NsecToTimeval(limit.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		c.Close()
		return nil, os.NewSyscallError("limit the wait for an answer", err)
	}
	// A connected socket receives from the kernel only, and not from other processes.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		c.Close()
		return nil, os.NewSyscallError("connect netlink socket", err)
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() { _ = unix.Close(c.fd) } // no written data can be lost

// Send sends a request of a type (NLM_F_REQUEST and flags) and does not read its answer. The
// kernel has handled it when Send returns.
func (c *Conn) Send(kind, flags uint16, body []byte) error {
	c.seq++
	size := unix.NLMSG_HDRLEN + len(body)
	request := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	request = binary.NativeEndian.AppendUint16(request, kind)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|flags)
	request = binary.NativeEndian.AppendUint32(request, c.seq)
	request = append(request, 0, 0, 0, 0) // port: the kernel's choice
	_, err := unix.Write(c.fd, append(request, body...))
	return os.NewSyscallError("send", err)
}

// Ask sends a request and calls f for the body of each message of its answer, which f must not
// keep. An error of f ends the answer and is returned. A refusal of the kernel is its errno,
// and an answer that does not come os.ErrDeadlineExceeded.
func (c *Conn) Ask(kind, flags uint16, body []byte, f func(body []byte) error) error {
	return c.AskFor(kind, kind, flags, body, f)
}

// AskFor is Ask for a protocol whose answers have another type than their requests.
func (c *Conn) AskFor(kind, answers, flags uint16, body []byte, f func(body []byte) error) error {
	// The acknowledgement marks the end of an answer that is no dump.
	if err := c.Send(kind, unix.NLM_F_ACK|flags, body); err != nil {
		return err
	}
	return c.receive(answers, f)
}

// receive reads the answer to the last request.
func (c *Conn) receive(kind uint16, f func(body []byte) error) error {
	buffer := make([]byte, messageSize)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, unix.MSG_TRUNC) // n is the whole size, also of what did not fit
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("no answer within %v: %w", c.limit, os.ErrDeadlineExceeded)
		case err != nil:
			return os.NewSyscallError("receive", err)
		case n > len(buffer):
			return fmt.Errorf("receive: a part of %d bytes, at most %d are read", n, len(buffer))
		}
		if done, err := answer(buffer[:n], kind, c.seq, f); done || err != nil {
			return err
		}
	}
}

// answer handles the messages of one datagram, and reports whether the answer is over.
func answer(raw []byte, kind uint16, seq uint32, f func(body []byte) error) (done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return false, fmt.Errorf("read answer: damaged message: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != seq: // the remainder of an answer that was given up
		case m.Header.Type == unix.NLMSG_DONE, m.Header.Type == unix.NLMSG_ERROR:
			return true, refusal(m.Data)
		case m.Header.Type != kind:
			return false, fmt.Errorf("read answer: message of type %d with %d bytes", m.Header.Type, len(m.Data))
		default:
			if err := f(m.Data); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// refusal returns the error at the end of an answer: a negative errno, or 0 for none.
func refusal(body []byte) error {
	if len(body) < 4 {
		return errors.New("read answer: an error without a number")
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}
