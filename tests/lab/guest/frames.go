//go:build guest

package guest

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DropFrames makes a netdev of type veth drop all frames that it receives, and count them in its statistics, by an XDP
// program of two instructions. It ends with the test.
func DropFrames(t testing.TB, netdev string) {
	t.Helper()
	RequireGuest(t)
	nic, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	const drop = 1 // XDP_DROP of linux/bpf.h
	program := []byte{
		0xb7, 0, 0, 0, drop, 0, 0, 0, // r0 = drop
		0x95, 0, 0, 0, 0, 0, 0, 0, // exit
	}
	licence := []byte("GPL\x00")
	load := struct {
		kind, instructions  uint32
		program, licence    uintptr
		level, size         uint32
		log                 uintptr
		version, flags      uint32
		name                [16]byte
		ifindex, attachType uint32
	}{
		kind: unix.BPF_PROG_TYPE_XDP, instructions: uint32(len(program) / 8),
		program: uintptr(unsafe.Pointer(&program[0])), licence: uintptr(unsafe.Pointer(&licence[0])),
	}
	prog := callBPF(t, unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	link := struct{ prog, ifindex, attachType, flags uint32 }{
		prog: uint32(prog), ifindex: uint32(nic.Index), attachType: unix.BPF_XDP, flags: unix.XDP_FLAGS_DRV_MODE,
	}
	attached := callBPF(t, unix.BPF_LINK_CREATE, unsafe.Pointer(&link), unsafe.Sizeof(link))
	t.Cleanup(func() {
		for _, fd := range []int{attached, prog} {
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	})
}

func callBPF(t testing.TB, command uintptr, attr unsafe.Pointer, size uintptr) (fd int) {
	t.Helper()
	n, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	if errno != 0 {
		t.Fatalf("bpf command %d: %v", command, errno)
	}
	return int(n)
}

// SendFrames sends frames of a type that no protocol has out of a netdev.
func SendFrames(t testing.TB, netdev string, frames int) {
	t.Helper()
	RequireGuest(t)
	nic, err := net.InterfaceByName(netdev)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const experimental = 0x88b5 // IEEE 802.1: for local experiments
	frame := make([]byte, 60)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(frame[6:], nic.HardwareAddr)
	binary.BigEndian.PutUint16(frame[12:], experimental)
	for range frames {
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: nic.Index}); err != nil {
			t.Fatal(err)
		}
	}
}

// WithoutIPv6 keeps a netdev from sending on its own.
func WithoutIPv6(t testing.TB, netdev string) {
	t.Helper()
	RequireGuest(t)
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", netdev, "disable_ipv6"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}
