package nldev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// answerLimit is the longest wait for one message of the kernel, in seconds.
const answerLimit = 5

// conn is a netlink socket, used by one goroutine.
type conn struct {
	fd  int
	seq uint32
}

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return nil, os.NewSyscallError("open socket", err)
	}
	c := &conn{fd: fd}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerLimit}); err != nil {
		c.close()
		return nil, os.NewSyscallError("limit the wait for an answer", err)
	}
	return c, nil
}

func (c *conn) close() { _ = unix.Close(c.fd) } // no written data can be lost

// ask sends a request and calls f for the body of each message of the answer.
func (c *conn) ask(command uint16, flags uint16, body []byte, f func(body []byte)) error {
	c.seq++
	request := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(request, uint32(unix.NLMSG_HDRLEN+len(body)))
	binary.NativeEndian.PutUint16(request[4:], nldev<<10|command)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	binary.NativeEndian.PutUint32(request[8:], c.seq)
	if err := unix.Sendto(c.fd, append(request, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("send", err)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(c.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("no answer within %d s", answerLimit)
		case err != nil:
			return os.NewSyscallError("receive", err)
		}
		done, err := answer(buffer[:n], c.seq, f)
		if done || err != nil {
			return err
		}
	}
}

// answer handles the messages of one datagram, and reports whether the answer
// is over. An error of the kernel is returned as its errno.
func answer(raw []byte, seq uint32, f func(body []byte)) (done bool, err error) {
	for len(raw) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(raw))
		if size < unix.NLMSG_HDRLEN || size > len(raw) {
			return false, fmt.Errorf("read answer: a message of %d bytes in %d", size, len(raw))
		}
		kind, of, body := binary.NativeEndian.Uint16(raw[4:]), binary.NativeEndian.Uint32(raw[8:]), raw[unix.NLMSG_HDRLEN:size]
		raw = raw[min(aligned(size), len(raw)):]
		switch {
		case of != seq: // the remainder of an answer that was given up
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, errors.New("read answer: an error without a number")
			}
			if errno := -int32(binary.NativeEndian.Uint32(body)); errno != 0 {
				return true, unix.Errno(errno)
			}
			return true, nil
		default:
			f(body)
		}
	}
	return false, nil
}

// attribute appends an attribute of 32 bits.
func attribute(to []byte, kind uint16, value uint32) []byte {
	to = binary.NativeEndian.AppendUint16(to, unix.SizeofNlAttr+4)
	to = binary.NativeEndian.AppendUint16(to, kind)
	return binary.NativeEndian.AppendUint32(to, value)
}

// each calls f for the attributes of a message or of a nested attribute. It
// stops at the first that is damaged.
func each(raw []byte, f func(kind uint16, value []byte)) {
	for len(raw) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(raw))
		if size < unix.SizeofNlAttr || size > len(raw) {
			return
		}
		f(binary.NativeEndian.Uint16(raw[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), raw[unix.SizeofNlAttr:size])
		raw = raw[min(aligned(size), len(raw)):]
	}
}

func aligned(n int) int { return (n + 3) &^ 3 } // NLMSG_ALIGN and NLA_ALIGN

func text(value []byte) string {
	before, _, _ := bytes.Cut(value, []byte{0})
	return string(before)
}

func word(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

func long(value []byte) uint64 {
	if len(value) < 8 {
		return uint64(word(value))
	}
	return binary.NativeEndian.Uint64(value)
}
