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

// Needs lists the parts of the file system that a confined process can use, beside its
// own program and the files from which that is loaded, and the rest that it keeps. A path
// of Read or Devices on which stat(2) fails is left out.
type Needs struct {
	Read    []string // files, and directories with all that is below them
	Devices []string // directories of device nodes to read, write and control
	Sockets string   // a directory to make Unix sockets in; "": none
	// Name is the name that all threads have in the new program (comm in proc(5)), at most 15 bytes. It takes Sockets. "": the
	// kernel names them after the path that is executed, exe.
	Name string
	// Keep are the capabilities (CAP_... of capabilities(7)) that the process has in the new program, and which it must have
	// now. Nearly no process needs one; each is a reason to read Seal.
	Keep []uintptr
	// Seal takes from the new program system calls that it does not need. nil: it has all.
	Seal *Seal
}

// ErrNotConfined is wrapped by the error of Enter in a process that still has more rights
// than it should have.
var ErrNotConfined = errors.New("not confined")

const (
	self   = "/proc/self/exe"
	marker = "RDMA_EVENTS_CONFINED"
)

// Again reports whether Enter has executed this program. It is only said so until Enter has returned nil.
func Again() bool {
	_, again := os.LookupEnv(marker)
	return again
}

// Enter confines the process and executes its program again with the same arguments,
// environment and inheritable descriptors. In the new program, which calls Enter with the same Needs, it checks that, seals
// the process if it is to, and returns nil. So main
// has to call Enter first, on the process' first thread (runtime.LockOSThread in an init
// function): that thread has the parent-death signal, and exec keeps the attributes of
// the calling thread. A kernel without Landlock restricts no files; the rest is the same.
// Any other error leaves the process in a state in which it should only exit.
func Enter(n Needs) error {
	if Again() {
		n.removeNamed()
		return errors.Join(os.Unsetenv(marker), settle(n))
	}
	if unix.Gettid() != unix.Getpid() {
		return errors.New("not on the first thread")
	}
	program := n.makeNamed()
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

// makeNamed returns a path of this program that ends in the name of the threads, or self if there is none. A thread inherits its
// name from the thread that makes it, and the runtime makes some before main: only the path can name them all.
func (n *Needs) makeNamed() string {
	path := n.named()
	if path == "" || os.Symlink(self, path) != nil {
		return self
	}
	return path
}

// removeNamed removes the link that makeNamed has made. The host removes the directory in any case.
func (n *Needs) removeNamed() {
	if path := n.named(); path != "" {
		_ = os.Remove(path)
	}
}

func (n *Needs) named() string {
	if n.Name == "" || n.Sockets == "" {
		return ""
	}
	return filepath.Join(n.Sockets, n.Name)
}

// Landlock returns the version of Landlock's interface in the kernel, 0 if the kernel has
// none or does not let this process use it.
func Landlock() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// keepLockedMemory keeps the effect of CAP_IPC_LOCK: a process that could lock any amount
// of memory gets an unlimited RLIMIT_MEMLOCK. If that is refused (it takes
// CAP_SYS_RESOURCE) the limit stays as it is.
func keepLockedMemory() {
	var caps [2]unix.CapUserData
	if unix.Capget(capHeader(), &caps[0]) != nil || caps[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return
	}
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// dropCapabilities reduces all capability sets of this thread to those to keep. Only a
// thread with CAP_SETPCAP can reduce the bounding set; without it, no_new_privs makes that
// set irrelevant. It stays if the program's file has capabilities: the kernel refuses to
// execute a file whose capabilities are not all in that set.
//
// What is to be kept has to outlive the execution of the program. If the program's file has capabilities, the kernel gives
// it, with no_new_privs, those of the file that the thread has; it takes the ambient set away. If the file has none, the
// program gets the ambient set.
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
	for i, set := range setOf(keep) {
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

// setOf returns capabilities as capget(2) has them, 32 in each word.
func setOf(caps []uintptr) (set [2]uint32) {
	for _, c := range caps {
		set[c/32%2] |= 1 << (c % 32)
	}
	return set
}

func capHeader() *unix.CapUserHeader {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// settle completes the confinement in the new program.
func settle(n Needs) error {
	if err := check(n.Keep); err != nil {
		return err
	}
	if n.Seal == nil {
		return nil
	}
	return n.Seal.apply()
}

// check checks that the process is confined, because only an environment variable
// distinguishes the second start from the first.
func check(keep []uintptr) error {
	var caps [2]unix.CapUserData
	if err := unix.Capget(capHeader(), &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i, want := range setOf(keep) {
		// The inheritable set gives nothing: the process cannot execute a program that has it.
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
