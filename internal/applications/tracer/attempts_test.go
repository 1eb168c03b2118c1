package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
)

// Environment variables of a process that attempts operations which a tracer must not be able to perform.
const (
	targetKey = "RDMA_EVENTS_TEST_TARGET" // the number of a process to attack
	noteKey   = "RDMA_EVENTS_TEST_NOTE"   // the file for the results, in a directory to mount on
)

// attemptContext has the objects on which attempts operate.
type attemptContext struct {
	pid  int
	dir  string
	maps int // descriptor of an eBPF map; -1: none
}

// prepareAttempts opens the file for the results and creates an eBPF map, which requires a privilege.
func prepareAttempts(Settings) (Prepared, error) {
	note, err := unix.Open(os.Getenv(noteKey), unix.O_WRONLY|unix.O_TRUNC, 0)
	if err != nil {
		return Prepared{}, err
	}
	fd, err := newMap()
	if err != nil {
		fd = -1
	}
	return Prepared{Text: fmt.Sprint(note, " ", fd)}, nil
}

func leavingAndKeeping(s Settings) (Prepared, error) {
	p, err := prepareAttempts(s)
	p.KeepBPF = true
	return p, err
}

// makeAttempts makes all attempts and writes the errors of the attempts that the kernel refuses.
func makeAttempts(_ trace.Request, prepared string) (trace.Source, error) {
	on := attemptContext{dir: filepath.Dir(os.Getenv(noteKey))}
	var note int
	_, err := fmt.Sscan(prepared, &note, &on.maps)
	pid, errPID := strconv.Atoi(os.Getenv(targetKey))
	if err := errors.Join(err, errPID); err != nil {
		return nil, err
	}
	on.pid = pid
	refusals := map[string]string{}
	for name, attempt := range allAttempts() {
		if err := attempt(on); err != nil {
			refusals[name] = errnoName(err)
		}
	}
	return newScripted(), json.NewEncoder(os.NewFile(uintptr(note), "note")).Encode(refusals)
}

func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// permissionError returns err if it means that the process lacks permission, and nil if the kernel only rejected the arguments. Most
// attempts have arguments that are harmless if the operation is allowed.
func permissionError(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}

// invalidCall makes a system call with invalid arguments.
func invalidCall(number uintptr, args ...uintptr) func(attemptContext) error {
	var a [6]uintptr
	copy(a[:], args)
	return func(attemptContext) error { return permissionError(systemCall(number, a)) }
}

func systemCall(number uintptr, a [6]uintptr) error {
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// none is an invalid descriptor or an invalid set of flags.
const none = ^uintptr(0)

// allAttempts has the operations that an attacker could try in a compromised tracer.
func allAttempts() map[string]func(attemptContext) error {
	return map[string]func(attemptContext) error{
		"have a capability":       func(attemptContext) error { return hasCapability() },
		"gain privileges":         func(attemptContext) error { return requireInitial(unix.PR_GET_NO_NEW_PRIVS, 0) },
		"leave a core":            func(attemptContext) error { return requireInitial(unix.PR_GET_DUMPABLE, 1) },
		"read a file":             func(attemptContext) error { return openFile("/etc/passwd") },
		"list the root":           func(attemptContext) error { return openFile("/") },
		"read another's status":   func(attemptContext) error { return openFile("/proc/1/status") },
		"execute a program":       func(attemptContext) error { return executeProgram("/bin/true") },
		"execute itself":          func(attemptContext) error { return executeProgram("/proc/self/exe") },
		"execute by a descriptor": invalidCall(unix.SYS_EXECVEAT, none),
		"trace a process":         func(on attemptContext) error { return traceProcess(on.pid) },
		"read another's memory":   func(on attemptContext) error { return accessMemory(unix.SYS_PROCESS_VM_READV, on.pid) },
		"write another's memory":  func(on attemptContext) error { return accessMemory(unix.SYS_PROCESS_VM_WRITEV, on.pid) },
		"take a descriptor":       func(on attemptContext) error { return takeDescriptor(on.pid) },
		"mount":                   func(on attemptContext) error { return mountTmpfs(on.dir) },
		"unmount":                 func(on attemptContext) error { return permissionError(unix.Unmount(on.dir, 0)) },
		"change the root":         invalidCall(unix.SYS_PIVOT_ROOT),
		"clone a mount":           invalidCall(unix.SYS_OPEN_TREE, none),
		"move a mount":            invalidCall(unix.SYS_MOVE_MOUNT, none, 0, none),
		"change a mount":          invalidCall(unix.SYS_MOUNT_SETATTR, none),
		"open a file system":      invalidCall(unix.SYS_FSOPEN),
		"pick a file system":      invalidCall(unix.SYS_FSPICK, none),
		"mount a file system":     invalidCall(unix.SYS_FSMOUNT, none),
		"watch by perf":           invalidCall(unix.SYS_PERF_EVENT_OPEN),
		"load a module":           invalidCall(unix.SYS_INIT_MODULE),
		"load a module's file":    invalidCall(unix.SYS_FINIT_MODULE, none),
		"load a kernel":           invalidCall(unix.SYS_KEXEC_LOAD, 0, 0, 0, none),
		"leave its namespaces":    invalidCall(unix.SYS_UNSHARE, none),
		"enter a namespace":       invalidCall(unix.SYS_SETNS, none),
		"clone3":                  func(attemptContext) error { return callClone3() },
		"make a TCP socket":       openSocket(unix.AF_INET, unix.SOCK_STREAM, 0),
		"make a UDP socket":       openSocket(unix.AF_INET6, unix.SOCK_DGRAM, 0),
		"make a packet socket":    openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"ask for routes":          openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"ask for RDMA devices":    openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA),
		"hear uevents":            openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"make a Unix socket":      openSocket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
		"load eBPF":               func(attemptContext) error { return permissionError(callBPF(unix.BPF_PROG_LOAD, &bpfAttr{})) },
		"attach eBPF":             func(attemptContext) error { return permissionError(callBPF(unix.BPF_LINK_CREATE, &bpfAttr{})) },
		"load types":              func(attemptContext) error { return permissionError(callBPF(unix.BPF_BTF_LOAD, &bpfAttr{})) },
		"open another's map": func(attemptContext) error {
			return permissionError(callBPF(unix.BPF_MAP_GET_FD_BY_ID, &bpfAttr{1<<32 - 1}))
		},
		"make a map":         func(attemptContext) error { return makesMap() },
		"write into a map":   func(on attemptContext) error { return accessElement(unix.BPF_MAP_UPDATE_ELEM, on.maps, 2) },
		"read a map":         func(on attemptContext) error { return accessElement(unix.BPF_MAP_LOOKUP_ELEM, on.maps, 1) },
		"describe a map":     func(on attemptContext) error { return describeMap(on.maps) },
		"delete in a map":    func(on attemptContext) error { return accessElement(unix.BPF_MAP_DELETE_ELEM, on.maps, 3) },
		"read a map at once": func(on attemptContext) error { return lookUpBatch(unix.BPF_MAP_LOOKUP_BATCH, on.maps) },
	}
}

func hasCapability() error {
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil || caps != [2]unix.CapUserData{} {
		return err
	}
	return unix.EPERM
}

// requireInitial returns EPERM if a property of the process no longer has its initial value.
func requireInitial(option int, value int) error {
	if now, err := unix.PrctlRetInt(option, 0, 0, 0, 0); err != nil || now == value {
		return err
	}
	return unix.EPERM
}

func openFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func executeProgram(path string) error {
	p, err := os.StartProcess(path, []string{path, "-test.run=^$"}, &os.ProcAttr{Env: []string{}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// onlyHere runs f on a thread that ends with f.
func onlyHere(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// traceProcess attaches to a process without stopping it. The end of the thread detaches it.
func traceProcess(pid int) error {
	return onlyHere(func() error { return systemCall(unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_SEIZE, uintptr(pid)}) })
}

// accessMemory reads memory of another process at an unmapped address.
func accessMemory(number uintptr, pid int) error {
	var b [1]byte
	local := unix.Iovec{Base: &b[0], Len: 1}
	remote := unix.RemoteIovec{Base: 1, Len: 1}
	return permissionError(systemCall(number, [6]uintptr{
		uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1,
	}))
}

func takeDescriptor(pid int) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, 0, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func mountTmpfs(dir string) error {
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Unmount(dir, 0)
}

// callClone3 calls clone3 without arguments. If the kernel allows the call, it reports that the arguments are missing.
func callClone3() error {
	if err := systemCall(unix.SYS_CLONE3, [6]uintptr{}); errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

func openSocket(domain, typ, protocol int) func(attemptContext) error {
	return func(attemptContext) error {
		fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return permissionError(err)
		}
		return unix.Close(fd)
	}
}

// bpfAttr is union bpf_attr of linux/bpf.h, in words.
type bpfAttr [16]uint64

// callBPF calls bpf(2). The caller must keep everything alive that attr points to.
func callBPF(number uintptr, attr *bpfAttr) error {
	return systemCall(unix.SYS_BPF, [6]uintptr{number, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr)})
}

const (
	mapSize   = 4
	sizeOfKey = 8
)

// newMap creates a map from numbers to numbers that the second execution inherits.
func newMap() (int, error) {
	attr := bpfAttr{unix.BPF_MAP_TYPE_HASH | sizeOfKey<<32, sizeOfKey | mapSize<<32}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return -1, errno
	}
	for key := range uint64(mapSize) {
		if err := accessElement(unix.BPF_MAP_UPDATE_ELEM, int(fd), key); err != nil {
			return -1, err
		}
	}
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0)
	return int(fd), err
}

func makesMap() error {
	fd, err := newMap()
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// accessElement executes a bpf(2) command on an element of a map.
func accessElement(number uintptr, fd int, key uint64) error {
	value := key
	attr := bpfAttr{uint64(fd), pointerValue(&key)}
	if number != unix.BPF_MAP_DELETE_ELEM { // that command has no value
		attr[2] = pointerValue(&value)
	}
	err := callBPF(number, &attr)
	runtime.KeepAlive(&key)
	runtime.KeepAlive(&value)
	return err
}

// lookUpBatch reads all elements of a map. The kernel returns ENOENT together with the last ones.
func lookUpBatch(number uintptr, fd int) error {
	var next uint64
	var keys, values [mapSize]uint64
	attr := bpfAttr{0, pointerValue(&next), pointerValue(&keys[0]), pointerValue(&values[0]), mapSize | uint64(fd)<<32}
	err := callBPF(number, &attr)
	runtime.KeepAlive(&next)
	runtime.KeepAlive(&keys)
	runtime.KeepAlive(&values)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func describeMap(fd int) error {
	var info [512]byte
	attr := bpfAttr{uint64(fd) | uint64(len(info))<<32, uint64(uintptr(unsafe.Pointer(&info)))}
	err := callBPF(unix.BPF_OBJ_GET_INFO_BY_FD, &attr)
	runtime.KeepAlive(&info)
	return err
}

func pointerValue(p *uint64) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
