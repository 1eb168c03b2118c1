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

// Dial opens a socket of a protocol, such as unix.NETLINK_RDMA, which may load a kernel module.
// limit is the longest wait for a part of an answer. The kernel queues the first part before it
// returns from the request, so the limit matters only if an answer is lost. The caller has to
// close the Conn.
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
	// A connected socket receives only from the kernel, not from other processes.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		c.Close()
		return nil, os.NewSyscallError("connect netlink socket", err)
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() { _ = unix.Close(c.fd) } // no written data can be lost

// Send sends a request with the flags NLM_F_REQUEST and flags, and does not read its answer. When
// Send returns, the kernel has handled the request.
func (c *Conn) Send(kind, flags uint16, body []byte) error {
	c.seq++
	size := unix.NLMSG_HDRLEN + len(body)
	request := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	request = binary.NativeEndian.AppendUint16(request, kind)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|flags)
	request = binary.NativeEndian.AppendUint32(request, c.seq)
	request = append(request, 0, 0, 0, 0) // port ID: chosen by the kernel
	_, err := unix.Write(c.fd, append(request, body...))
	return os.NewSyscallError("send", err)
}

// Ask sends a request and calls f for the body of each message of the answer. f must not keep the
// body. If f returns an error, Ask stops and returns it. If the kernel refuses the request, the error
// is the errno. If no answer comes within the limit, it is os.ErrDeadlineExceeded.
func (c *Conn) Ask(kind, flags uint16, body []byte, f func(body []byte) error) error {
	return c.AskFor(kind, kind, flags, body, f)
}

// AskFor is like Ask, for protocols whose answers have a different type than the requests.
func (c *Conn) AskFor(kind, answers, flags uint16, body []byte, f func(body []byte) error) error {
	// The acknowledgement marks the end of an answer that is not a dump.
	if err := c.Send(kind, unix.NLM_F_ACK|flags, body); err != nil {
		return err
	}
	return c.receive(answers, f)
}

// receive reads the answer to the last request.
func (c *Conn) receive(kind uint16, f func(body []byte) error) error {
	buffer := make([]byte, messageSize)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, unix.MSG_TRUNC) // with MSG_TRUNC, n is the whole size of the datagram
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("no answer within %v: %w", c.limit, os.ErrDeadlineExceeded)
		case err != nil:
			return os.NewSyscallError("receive", err)
		case n > len(buffer):
			return fmt.Errorf("receive: datagram of %d bytes, limit is %d", n, len(buffer))
		}
		if done, err := handleDatagram(buffer[:n], kind, c.seq, f); done || err != nil {
			return err
		}
	}
}

// handleDatagram handles the messages of one datagram, and reports whether the answer is complete.
func handleDatagram(raw []byte, kind uint16, seq uint32, f func(body []byte) error) (done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return false, fmt.Errorf("read answer: damaged message: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != seq: // rest of an earlier answer that the caller stopped reading
		case m.Header.Type == unix.NLMSG_DONE, m.Header.Type == unix.NLMSG_ERROR:
			return true, parseError(m.Data)
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

// parseError returns the error in the last message of an answer, which is a negative errno, or 0 for none.
func parseError(body []byte) error {
	if len(body) < 4 {
		return errors.New("read answer: an error without a number")
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code < 0 {
		return unix.Errno(-code)
	}
	return nil
}
