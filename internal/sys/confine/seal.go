package confine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Seal removes system calls from a process that no capability and no file restricts, and through which a kernel
// vulnerability could be reached. No thread of the process can any longer execute a program, read, write or trace another
// process, create a user namespace, mount, load modules or eBPF, use perf, or create a socket other than a Unix socket. Such
// a call fails with EPERM (seccomp(2)), and so does every call of another architecture. The process leaves no core dump, and
// no other process of its user can trace it.
//
// Seal is for programs that know which calls they make. With native libraries that is not known.
type Seal struct {
	BPF []uint32 // permitted commands of bpf(2), BPF_... of linux/bpf.h
}

// apply seals the process, which must have no_new_privs set.
func (s Seal) apply() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	arch, known := knownArchitectures()[runtime.GOARCH]
	if !known {
		return errors.New("seal the process: system calls of " + runtime.GOARCH + " are not known")
	}
	raw, err := bpf.Assemble(s.filter(arch))
	if err != nil {
		return fmt.Errorf("assemble filter of system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	switch {
	case errno != 0:
		return fmt.Errorf("filter system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("filter system calls: thread %d has another filter", thread)
	}
	return nil
}

// knownArchitectures returns the architectures for which this package knows the numbers of system calls, as seccomp(2) names
// them. Both are 64-bit little-endian.
func knownArchitectures() map[string]uint32 {
	return map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}
}

// refusedCalls returns the system calls that a sealed process cannot make with any arguments.
func refusedCalls() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
		unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, // a user namespace gives capabilities
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, // io_uring creates sockets without passing this filter
	}
}

// Offsets in struct seccomp_data (seccomp(2)).
const (
	callOffset     = 0
	archOffset     = 4
	argumentOffset = 16
	argumentSize   = 8
)

// x32Calls is the first number of the x32 calls, a second set of calls with the architecture of amd64. All calls from this
// number on are x32 calls.
const x32Calls = 1 << 30

// filter returns the filter, which permits the other system calls of arch.
func (s Seal) filter(arch uint32) []bpf.Instruction {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	// The flags of clone3 are in memory, where a filter cannot see them. With ENOSYS, runtimes fall back to clone.
	unknown := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}

	f := []bpf.Instruction{
		loadWord(archOffset), bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1}, refuse,
		loadWord(callOffset), bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Calls, SkipTrue: 1}, refuse,
	}
	for _, call := range refusedCalls() {
		f = append(f, ifEqual(call, refuse)...)
	}
	f = append(f, ifEqual(unix.SYS_CLONE3, unknown)...)
	f = append(f, ifEqual(unix.SYS_CLONE, loadArgument(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWUSER, SkipFalse: 1},
		refuse, allow)...)

	commands := []bpf.Instruction{loadArgument(0)}
	for _, command := range s.BPF {
		commands = append(commands, ifEqual(command, allow)...)
	}
	f = append(f, ifEqual(unix.SYS_BPF, append(commands, refuse)...)...)

	sockets := slices.Concat([]bpf.Instruction{loadArgument(0)}, ifEqual(unix.AF_UNIX, allow), []bpf.Instruction{refuse})
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		f = append(f, ifEqual(call, sockets...)...)
	}
	return append(f, allow)
}

// ifEqual returns instructions that execute then if the last loaded value equals value, and that skip then otherwise.
func ifEqual(value uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: uint8(len(then))}}, then...)
}

// loadArgument loads the lower 32 bits of an argument, which suffice for arguments of the type int.
func loadArgument(n uint32) bpf.Instruction { return loadWord(argumentOffset + n*argumentSize) }

func loadWord(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }
