package confine

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call as a filter sees it.
type call struct {
	arch   uint32
	number uint32
	args   [3]uint64
}

// bytes returns struct seccomp_data for bpf.VM. Each word is big-endian, as the VM reads it, and the lower half of an argument
// comes first, as on both architectures.
func (c call) bytes() []byte {
	words := []uint32{c.number, c.arch, 0, 0}
	for _, a := range c.args {
		words = append(words, uint32(a), uint32(a>>32))
	}
	var b []byte
	for _, w := range append(words, make([]uint32, 6)...) {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

const (
	allowed = unix.SECCOMP_RET_ALLOW
	refused = unix.SECCOMP_RET_ERRNO | int(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)
)

func TestAFilterLetsOnlyPassWhatASealLeaves(t *testing.T) {
	const above = 1 << 32 // the kernel ignores the upper half
	for _, arch := range knownArchitectures() {
		vm, err := bpf.NewVM(Seal{BPF: []uint32{unix.BPF_MAP_LOOKUP_ELEM, unix.BPF_ITER_CREATE}}.filter(arch))
		require.NoError(t, err)
		require.LessOrEqual(t, len(Seal{}.filter(arch)), 4096, "BPF_MAXINSNS")
		does := func(c call) int {
			c.arch ^= arch
			out, err := vm.Run(c.bytes())
			require.NoError(t, err)
			return out
		}
		for _, number := range refusedCalls() {
			require.Equal(t, refused, does(call{number: number}), "call %d", number)
		}
		for _, row := range []struct {
			want int
			call call
		}{
			{allowed, call{number: unix.SYS_READ}},
			{allowed, call{number: unix.SYS_FUTEX}},
			{allowed, call{number: 999}},
			{refused, call{number: unix.SYS_READ, arch: 1}},
			{refused, call{number: unix.SYS_READ | x32Calls}},
			{refused, call{number: 1<<32 - 1}},
			{allowed, call{number: unix.SYS_CLONE, args: [3]uint64{unix.CLONE_VM | unix.CLONE_THREAD}}},
			{refused, call{number: unix.SYS_CLONE, args: [3]uint64{unix.CLONE_VM | unix.CLONE_NEWUSER}}},
			{refused, call{number: unix.SYS_CLONE, args: [3]uint64{above | unix.CLONE_NEWUSER}}},
			{unknown, call{number: unix.SYS_CLONE3}},
			{allowed, call{number: unix.SYS_BPF, args: [3]uint64{unix.BPF_MAP_LOOKUP_ELEM}}},
			{allowed, call{number: unix.SYS_BPF, args: [3]uint64{unix.BPF_ITER_CREATE}}},
			{refused, call{number: unix.SYS_BPF, args: [3]uint64{unix.BPF_MAP_CREATE}}},
			{refused, call{number: unix.SYS_BPF, args: [3]uint64{above | unix.BPF_PROG_LOAD}}},
			{refused, call{number: unix.SYS_BPF, args: [3]uint64{1<<64 - 1}}},
			{allowed, call{number: unix.SYS_SOCKET, args: [3]uint64{unix.AF_UNIX, unix.SOCK_STREAM}}},
			{refused, call{number: unix.SYS_SOCKET, args: [3]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}}},
			{refused, call{number: unix.SYS_SOCKET, args: [3]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}},
			{refused, call{number: unix.SYS_SOCKET, args: [3]uint64{unix.AF_INET, unix.SOCK_STREAM}}},
			{refused, call{number: unix.SYS_SOCKET, args: [3]uint64{above | unix.AF_INET, unix.SOCK_STREAM}}},
			{allowed, call{number: unix.SYS_SOCKETPAIR, args: [3]uint64{unix.AF_UNIX}}},
			{refused, call{number: unix.SYS_SOCKETPAIR, args: [3]uint64{unix.AF_TIPC}}},
		} {
			require.Equal(t, row.want, does(row.call), "%x: %+v", arch, row.call)
		}
	}
}
