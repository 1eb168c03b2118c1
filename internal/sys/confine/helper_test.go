package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/confine/confinetest"
)

// The test program is both the process that confines itself and the process that it
// attacks; orderKey selects which.
const orderKey = "CONFINE_TEST_ORDER"

// order has the instructions for a helper process.
type order struct {
	Confine    bool
	NoLandlock bool // as on a kernel without it
	Needs      Needs
	Target     target // Dir "": nothing is attempted
}

// target has the targets of the attempts. No attempt changes the target of another attempt.
type target struct {
	Dir    string // files of the attempts, and a socket
	PID    int
	TCP    int // listening ports on the loopback
	UDP    int
	Socket string // the name of an abstract socket
}

// Enter needs the first thread.
func init() {
	if os.Getenv(orderKey) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if text := os.Getenv(orderKey); text != "" {
		os.Exit(runHelper(text))
	}
	os.Exit(m.Run())
}

// runHelper prints the errno of each attempt that failed, and waits for the end of its input.
func runHelper(text string) int {
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if o.NoLandlock && os.Getenv(marker) == "" {
		err = errors.Join(err, confinetest.ForbidLandlock())
	}
	if o.Confine {
		err = errors.Join(err, Enter(o.Needs))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	results := map[string]string{}
	if o.Target.Dir == "" {
		clear(attempts)
	}
	for name := range attempts {
		if err := attempts[name](o.Target); err != nil {
			results[name] = errnoName(err)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes it
	return 0
}

func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// attempts has the actions that a hostile library could try.
var attempts = map[string]func(target) error{
	"read a secret":          func(target) error { return openFile("/etc/shadow", unix.O_RDONLY) },
	"list the root":          func(target) error { return openFile("/", unix.O_RDONLY) },
	"read another's file":    func(t target) error { return openFile(t.Dir+"/there", unix.O_RDONLY) },
	"write a file":           func(t target) error { return openFile(t.Dir+"/writable", unix.O_WRONLY) },
	"make a file":            func(t target) error { return openFile(t.Dir+"/new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) },
	"remove a file":          func(t target) error { return os.Remove(t.Dir + "/removable") },
	"truncate a file":        func(t target) error { return os.Truncate(t.Dir+"/writable", 0) },
	"make a directory":       func(t target) error { return os.Mkdir(t.Dir+"/dir", 0o700) },
	"execute a program":      func(target) error { return executeProgram("/bin/true") },
	"execute itself":         func(target) error { return executeProgram(self) },
	"trace a process":        func(t target) error { return traceProcess(t.PID) },
	"signal a process":       func(t target) error { return unix.Kill(t.PID, 0) },
	"connect by TCP":         func(t target) error { return dialAndSend("tcp", "127.0.0.1:"+strconv.Itoa(t.TCP)) },
	"listen by TCP":          func(target) error { return openListener("tcp", "127.0.0.1:0") },
	"send by UDP":            func(t target) error { return dialAndSend("udp", "127.0.0.1:"+strconv.Itoa(t.UDP)) },
	"connect to an abstract": func(t target) error { return dialAndSend("unix", "@"+t.Socket) },
	"connect to a socket":    func(t target) error { return dialAndSend("unix", t.Dir+"/socket") },
	"open a raw socket":      func(target) error { return openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"become another user":    func(target) error { return onlyHere(func() error { return rawSetuid(65534) }) },
	"give a file away":       func(t target) error { return os.Chown(t.Dir+"/giveable", 65534, 65534) },
	"mount":                  func(t target) error { return mountTmpfs(t.Dir) },
	"read a named file":      func(t target) error { return openFile(t.Dir+"/named", unix.O_RDONLY) },
	"write a named file":     func(t target) error { return openFile(t.Dir+"/named", unix.O_WRONLY) },
	"read in a named dir":    func(t target) error { return openFile(t.Dir+"/read/file", unix.O_RDONLY) },
	"write in a named dir":   func(t target) error { return openFile(t.Dir+"/read/file", unix.O_WRONLY) },
	"execute in a named dir": func(t target) error { return executeProgram(t.Dir + "/read/program") },
	"control a device":       func(target) error { return controlDevice("/dev/urandom") },
	"make a device":          func(t target) error { return unix.Mknod(t.Dir+"/devices/new", unix.S_IFREG, 0) },
	"make a socket":          func(t target) error { return openListener("unix", t.Dir+"/sockets/s") },
	"end with its parent":    func(target) error { return diesWithParent() },
	// mlx4's library uses these to resolve an address handle (providers/mlx4/verbs.c, libibverbs/neigh.c in rdma-core).
	"list routes":     func(target) error { return listRtnetlink(unix.RTM_GETROUTE) },
	"list neighbours": func(target) error { return listRtnetlink(unix.RTM_GETNEIGH) },
	"hear uevents":    func(target) error { return openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) },
}

// listRtnetlink asks rtnetlink for all entries of a kind.
func listRtnetlink(kind int) error {
	_, err := syscall.NetlinkRIB(kind, unix.AF_UNSPEC)
	return err
}

// diesWithParent fails if the process has lost its parent-death signal. Some changes of credentials clear that signal (prctl(2)).
func diesWithParent() error {
	var sig int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0); err != nil {
		return err
	}
	if sig != int32(unix.SIGKILL) {
		return fmt.Errorf("the parent-death signal is %d", sig)
	}
	return nil
}

func openFile(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// executeProgram runs a program. It returns the error if the kernel refuses to start the program.
func executeProgram(path string) error {
	p, err := os.StartProcess(path, []string{filepath.Base(path), "-test.run=^$"}, &os.ProcAttr{Env: []string{}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// traceProcess attaches to a process without stopping it. The end of this thread detaches it.
func traceProcess(pid int) error {
	return onlyHere(func() error {
		if _, _, errno := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
			return errno
		}
		return nil
	})
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

// rawSetuid changes the user of this thread only.
func rawSetuid(uid int) error {
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETUID, uintptr(uid), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func dialAndSend(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("x"))
	return errors.Join(err, c.Close())
}

func openListener(network, address string) error {
	var c net.ListenConfig
	c.SetMultipathTCP(false) // which Landlock does not know
	l, err := c.Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	return l.Close()
}

func mountTmpfs(dir string) error {
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Unmount(dir, 0)
}

func openSocket(domain, typ, proto int) error {
	fd, err := unix.Socket(domain, typ|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// controlDevice opens a character device for reading and writing, and makes an ioctl that returns the amount of entropy
// (RNDGETENTCNT in random(4)).
func controlDevice(path string) error {
	const entropyCount = 0x80045200
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetInt(fd, entropyCount)
	return err
}
