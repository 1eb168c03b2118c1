//go:build guest

package guest

import (
	"encoding/binary"
	"errors"
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

// Capture reads the RoCE v2 packets that a netdev sends and receives, for as long as asked or until f returns false. What a
// queue of the netdev dropped is not among them.
func Capture(t testing.TB, netdev string, lasting time.Duration, f func(Frame) bool) {
	t.Helper()
	RequireGuest(t)
	fd := listen(t, netdev)
	defer unix.Close(fd)
	buffer := make([]byte, 2048)
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		frame, ok := parseFrame(buffer[:n])
		if link, is := from.(*unix.SockaddrLinklayer); ok && is {
			frame.Sent = link.Pkttype == unix.PACKET_OUTGOING
			if !f(frame) {
				return
			}
		}
	}
}

// listen opens a socket that receives the frames of a netdev, and wakes every 50 ms.
func listen(t testing.TB, netdev string) int {
	t.Helper()
	nic, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index})
	}
	if err != nil {
		t.Fatalf("listen to %s: %v", netdev, err)
	}
	return fd
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
