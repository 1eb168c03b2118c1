package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Needs lists the parts of the file system that a confined process can use, in addition to
// its own program and the files from which the program is loaded, and what else it keeps. A
// path in Read or Devices is ignored if stat(2) fails on it.
type Needs struct {
	Read    []string // files to read, and directories to read with everything below them
	Devices []string // directories of device nodes to read, write and control
	Sockets string   // directory in which to create Unix sockets; "": none
	// Name is the name of all threads in the new program (comm in proc(5)), at most 15 bytes. It requires Sockets. "": the
	// kernel names the threads after the executed path, exe.
	Name string
	// Keep lists the capabilities (CAP_... of capabilities(7)) that the process keeps in the new program. The process must have
	// them now. Hardly any process needs one. With a capability, consider Seal.
	Keep []uintptr
	// Seal removes system calls from the new program. nil: it can make all calls.
	Seal *Seal
}

// ErrNotConfined is in the error of Enter if the process still has more rights than it
// should have.
var ErrNotConfined = errors.New("not confined")

const (
	self   = "/proc/self/exe"
	marker = "RDMA_EVENTS_CONFINED"
)

// Again reports whether this is the second start, in which Enter has executed the program again. After Enter has returned nil
// it returns false.
func Again() bool {
	_, again := os.LookupEnv(marker)
	return again
}

// Enter confines the process and executes its program again with the same arguments,
// environment and inheritable descriptors. The new program has to call Enter with the same
// Needs. Enter then checks the confinement, seals the process if n.Seal is set, and returns
// nil. main has to call Enter first, on the first thread of the process (runtime.LockOSThread
// in an init function), because that thread has the parent-death signal, and exec keeps the
// attributes of the calling thread. On a kernel without Landlock, Enter does not restrict
// files. After an error the process should only exit.
func Enter(n Needs) error {
	if Again() {
		n.removeLink()
		return errors.Join(os.Unsetenv(marker), completeConfinement(n))
	}
	if unix.Gettid() != unix.Getpid() {
		return errors.New("not on the first thread")
	}
	program := n.linkWithName()
	keepLockedMemory()
	if err := restrictFiles(n); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := dropCapabilities(n.Keep); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	err := unix.Exec(program, os.Args, append(os.Environ(), marker+"=1"))
	return fmt.Errorf("execute %s again: %w", program, err)
}

// linkWithName returns a path of this program whose last element is the name of the threads, or self if that is not possible. A
// thread inherits its name from the thread that creates it, and the runtime creates some threads before main. Therefore only
// the executed path can name them all.
func (n *Needs) linkWithName() string {
	path := n.linkPath()
	if path == "" || os.Symlink(self, path) != nil {
		return self
	}
	return path
}

// removeLink removes the link that linkWithName created. If that fails, the host removes the link with the directory.
func (n *Needs) removeLink() {
	if path := n.linkPath(); path != "" {
		_ = os.Remove(path)
	}
}

// linkPath returns the path of the link, or "" if there is none.
func (n *Needs) linkPath() string {
	if n.Name == "" || n.Sockets == "" {
		return ""
	}
	return filepath.Join(n.Sockets, n.Name)
}

// Landlock returns the version of the Landlock ABI of the kernel, or 0 if the kernel has no
// Landlock or does not let this process use it.
func Landlock() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// keepLockedMemory preserves the effect of CAP_IPC_LOCK: a process that can lock any amount
// of memory gets an unlimited RLIMIT_MEMLOCK. If the kernel refuses that (it requires
// CAP_SYS_RESOURCE), the limit stays unchanged.
func keepLockedMemory() {
	var caps [2]unix.CapUserData
	if unix.Capget(capHeader(), &caps[0]) != nil || caps[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return
	}
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// dropCapabilities reduces all capability sets of this thread to keep. Only a thread with
// CAP_SETPCAP can reduce the bounding set; without it, no_new_privs makes that set
// irrelevant. If the program's file has capabilities, the bounding set stays unchanged,
// because the kernel refuses to execute a file whose capabilities are not all in that set.
//
// The kept capabilities have to survive the execution of the program. If the program's file has capabilities, the kernel clears
// the ambient set and, because of no_new_privs, gives the program the capabilities of the file that the thread has. If the file
// has none, the program gets the ambient set.
func dropCapabilities(keep []uintptr) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient set: %w", err)
	}
	if !fileHasCapabilities() {
		for c := uintptr(0); slices.Contains(keep, c) || unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
			continue // until the first number that the kernel does not know
		}
	}
	var caps [2]unix.CapUserData
	for i, set := range capabilityWords(keep) {
		caps[i] = unix.CapUserData{Effective: set, Permitted: set, Inheritable: set}
	}
	if err := unix.Capset(capHeader(), &caps[0]); err != nil {
		return fmt.Errorf("keep %v: %w", keep, err)
	}
	for _, c := range keep {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("add %d to ambient set: %w", c, err)
		}
	}
	return nil
}

func fileHasCapabilities() bool {
	n, err := unix.Getxattr(self, "security.capability", nil)
	return err == nil && n > 0
}

// capabilityWords returns capabilities in the format of capget(2), 32 per word.
func capabilityWords(caps []uintptr) (set [2]uint32) {
	for _, c := range caps {
		set[c/32%2] |= 1 << (c % 32)
	}
	return set
}

func capHeader() *unix.CapUserHeader {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// completeConfinement checks and seals the new program.
func completeConfinement(n Needs) error {
	if err := checkConfined(n.Keep); err != nil {
		return err
	}
	if n.Seal == nil {
		return nil
	}
	return n.Seal.apply()
}

// checkConfined checks that the process is confined, because only an environment variable
// distinguishes the second start from the first.
func checkConfined(keep []uintptr) error {
	var caps [2]unix.CapUserData
	if err := unix.Capget(capHeader(), &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i, want := range capabilityWords(keep) {
		// The inheritable set may be smaller: it only matters for executing another program.
		if has := caps[i]; has.Permitted != want || has.Effective != want || has.Inheritable&^want != 0 {
			return fmt.Errorf("%w: the process has other capabilities than %v", ErrNotConfined, keep)
		}
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on != 1 {
		return errors.Join(fmt.Errorf("%w: no_new_privs is not set", ErrNotConfined), err)
	}
	if fd, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil && Landlock() > 0 {
		_ = unix.Close(fd)
		return fmt.Errorf("%w: the root directory can be read", ErrNotConfined)
	}
	return nil
}
