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

// Seal takes from a process what no capability and no file guards, and what a hole in the kernel would be reached by: all of
// its threads can no more execute a program, read, write or trace another process, make a user namespace, mount, load
// modules or eBPF, watch by perf, or make a socket other than a Unix socket. Such a call fails with EPERM
// (seccomp(2)), and so does each of another architecture. The process leaves no core, and no other process of its user can
// trace it.
//
// It is for programs that know what they call. Native libraries do not say that.
type Seal struct {
	BPF []uint32 // the commands of bpf(2) that are left, BPF_... of linux/bpf.h
}

// apply seals the process. It must have no_new_privs.
func (s Seal) apply() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	arch, known := architectures()[runtime.GOARCH]
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

// architectures returns the architectures of which the numbers of system calls in this package are, as seccomp(2) names
// them. Both are little-endian with 64 bits.
func architectures() map[string]uint32 {
	return map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}
}

// refusedCalls returns the system calls that a sealed process does not have, whatever their arguments are.
func refusedCalls() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT,
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
		unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, // a user namespace comes with capabilities
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, // it makes sockets past this filter
	}
}

// Offsets in struct seccomp_data (seccomp(2)).
const (
	callOffset     = 0
	archOffset     = 4
	argumentOffset = 16
	argumentSize   = 8
)

// x32Calls is the first number of the calls of x32, a second set with the architecture of amd64. No other call is above.
const x32Calls = 1 << 30

// filter returns the filter that lets the rest of the system calls of arch pass.
func (s Seal) filter(arch uint32) []bpf.Instruction {
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	// Its flags are in memory, where no filter sees them. The runtimes that use it then use clone.
	unknown := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}

	f := []bpf.Instruction{
		load(archOffset), bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1}, refuse,
		load(callOffset), bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Calls, SkipTrue: 1}, refuse,
	}
	for _, call := range refusedCalls() {
		f = append(f, equal(call, refuse)...)
	}
	f = append(f, equal(unix.SYS_CLONE3, unknown)...)
	f = append(f, equal(unix.SYS_CLONE, argument(0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWUSER, SkipFalse: 1},
		refuse, allow)...)

	commands := []bpf.Instruction{argument(0)}
	for _, command := range s.BPF {
		commands = append(commands, equal(command, allow)...)
	}
	f = append(f, equal(unix.SYS_BPF, append(commands, refuse)...)...)

	sockets := slices.Concat([]bpf.Instruction{argument(0)}, equal(unix.AF_UNIX, allow), []bpf.Instruction{refuse})
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		f = append(f, equal(call, sockets...)...)
	}
	return append(f, allow)
}

// equal returns instructions that do then if what was loaded last is value, and skip it otherwise.
func equal(value uint32, then ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: uint8(len(then))}}, then...)
}

// argument loads the lower half of an argument, of those which the kernel takes as an int or does not use above.
func argument(n uint32) bpf.Instruction { return load(argumentOffset + n*argumentSize) }

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }
