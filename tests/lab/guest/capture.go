//go:build guest

package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Frame is an Ethernet frame with a RoCE v2 packet.
type Frame struct {
	Size       int // bytes, without the frame check sequence
	Sent       bool
	At         time.Time // by the kernel's clock
	Src, Dst   netip.Addr
	SourcePort uint16 // of UDP, which switches choose a way by
	Opcode     byte   // of the base transport header, as in OpDatagram
	DestQP     uint32
	PSN        uint32
	QKey       uint32 // of a datagram, as is SrcQP
	SrcQP      uint32
	Payload    []byte // of a datagram
}

// Opcodes of the base transport header.
const (
	OpWrite    = 0x0a // RDMA WRITE only
	OpAck      = 0x11
	OpDatagram = 0x64
)

const (
	ethernet, ipv4, udp, base, deth, icrc = 14, 20, 8, 12, 8, 4
	roceHeaders                           = ethernet + ipv4 + udp + base
	rocePort                              = 4791
)

// Tap reads the RoCE v2 packets that a netdev sends and receives. What a queue of the netdev dropped is not among them.
type Tap struct{ fd int }

// OpenTap begins to listen. Close ends that.
func OpenTap(t testing.TB, netdev string) *Tap {
	t.Helper()
	RequireGuest(t)
	nic, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		// Read looks at its context as often.
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index})
	}
	if err != nil {
		t.Fatalf("listen to %s: %v", netdev, err)
	}
	return &Tap{fd}
}

// Close ends listening. No Read may be under way.
func (p *Tap) Close() { _ = unix.Close(p.fd) } // a socket of our own

// Read calls f for each packet, until f returns false or the context ends. The error is that of the socket.
func (p *Tap) Read(ctx context.Context, f func(Frame) bool) error {
	buffer, control := make([]byte, 2048), make([]byte, 128)
	for ctx.Err() == nil {
		n, controls, _, from, err := unix.Recvmsg(p.fd, buffer, control, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive from a netdev: %w", err)
		}
		frame, ok := parseFrame(buffer[:n])
		link, is := from.(*unix.SockaddrLinklayer)
		if !ok || !is {
			continue
		}
		frame.Sent = link.Pkttype == unix.PACKET_OUTGOING
		if frame.At, err = receiveTime(control[:controls]); err != nil {
			return err
		}
		if !f(frame) {
			return nil
		}
	}
	return nil
}

// receiveTime returns the time at which the kernel received a packet, from the control message SCM_TIMESTAMPNS (socket(7)).
func receiveTime(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, fmt.Errorf("parse control messages: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), nil
		}
	}
	return time.Time{}, errors.New("a packet has no time stamp")
}

// Capture reads packets of a netdev for as long as asked or until f returns false.
func Capture(t testing.TB, netdev string, lasting time.Duration, f func(Frame) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	tap := OpenTap(t, netdev)
	defer tap.Close()
	if err := tap.Read(ctx, f); err != nil {
		t.Fatalf("capture %s: %v", netdev, err)
	}
}

// parseFrame reports false for all that is no RoCE v2 packet in an IPv4 header without options.
func parseFrame(b []byte) (Frame, bool) {
	if len(b) < roceHeaders+icrc || b[12] != 8 || b[13] != 0 || b[ethernet] != 0x45 || b[ethernet+9] != unix.IPPROTO_UDP {
		return Frame{}, false
	}
	ip, ports, bth := b[ethernet:], b[ethernet+ipv4:], b[ethernet+ipv4+udp:]
	if binary.BigEndian.Uint16(ports[2:]) != rocePort {
		return Frame{}, false
	}
	word := binary.BigEndian.Uint32
	f := Frame{
		Size: len(b), Src: netip.AddrFrom4([4]byte(ip[12:16])), Dst: netip.AddrFrom4([4]byte(ip[16:20])),
		SourcePort: binary.BigEndian.Uint16(ports), Opcode: bth[0], DestQP: word(bth[4:]) & 0xffffff, PSN: word(bth[8:]) & 0xffffff,
	}
	if f.Opcode == OpDatagram && len(bth) >= base+deth+icrc {
		f.QKey, f.SrcQP = word(bth[base:]), word(bth[base+4:])&0xffffff
		f.Payload = append([]byte{}, bth[base+deth:len(bth)-icrc]...)
	}
	return f, true
}
