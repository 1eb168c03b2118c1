package confine

import (
	"errors"
	"fmt"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Needs is what of the file system a confined process can use beside its own
// program and what that is loaded from. What does not exist, or cannot be looked
// at, is left out.
type Needs struct {
	Read    []string // files, and directories with all that is below them
	Devices []string // directories of device nodes to read, write and control
	Sockets string   // a directory to make Unix sockets in; "": none
}

// ErrNotConfined is wrapped by Enter in a process that still has more than it
// should have.
var ErrNotConfined = errors.New("not confined")

const (
	self   = "/proc/self/exe"
	marker = "RDMA_EVENTS_CONFINED"
)

// Enter confines the process and executes its program again with the same
// arguments, environment and inheritable descriptors. In the process that comes
// of it Enter returns nil; so the first thing that main does is to call it, on the
// process' first thread (runtime.LockOSThread in an init function): that one has
// the parent-death signal, and exec keeps what the calling thread has. A kernel without Landlock restricts no files;
// the rest is the same. Any other error leaves the process in a state in which it
// should only exit.
func Enter(n Needs) error {
	if _, again := os.LookupEnv(marker); again {
		return errors.Join(os.Unsetenv(marker), check())
	}
	if unix.Gettid() != unix.Getpid() {
		return errors.New("not on the first thread")
	}
	keepLockedMemory()
	if err := restrictFiles(n); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	err := unix.Exec(self, os.Args, append(os.Environ(), marker+"=1"))
	return fmt.Errorf("execute %s again: %w", self, err)
}

// Landlock returns the version of Landlock's interface that the kernel has, 0
// when it has none or does not let this process use it.
func Landlock() int {
	version, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return version
}

// keepLockedMemory keeps what CAP_IPC_LOCK was good for: a process that could
// lock as much memory as it likes gets a limit that says so. Where that is
// refused (it takes CAP_SYS_RESOURCE) the limit stays what it is.
func keepLockedMemory() {
	var caps [2]unix.CapUserData
	if unix.Capget(capHeader(), &caps[0]) != nil || caps[0].Effective&(1<<unix.CAP_IPC_LOCK) == 0 {
		return
	}
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
}

// dropCapabilities empties all sets of this thread. The bounding set can only be
// reduced by who has CAP_SETPCAP; without that, no_new_privs makes it irrelevant.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient set: %w", err)
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
		continue // until the first number that the kernel does not know
	}
	var none [2]unix.CapUserData
	return unix.Capset(capHeader(), &none[0])
}

func capHeader() *unix.CapUserHeader {
	return &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
}

// check looks at what Enter has left, because a variable of the environment is
// all that tells the second start from the first.
func check() error {
	var caps [2]unix.CapUserData
	if err := unix.Capget(capHeader(), &caps[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if caps != [2]unix.CapUserData{} {
		return fmt.Errorf("%w: the process has capabilities", ErrNotConfined)
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
