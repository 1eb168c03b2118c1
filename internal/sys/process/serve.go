package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"rdma_events/internal/sys/confine"
)

// Exit statuses of a child, in addition to 0 and the statuses of the Go runtime. A panic exits
// with 2 too, but its output differs from exitByHand's.
const (
	exitByHand = 2 // not started by a host
	exitOrphan = 3 // the host has ended
	exitStuck  = 4 // the child could not close its resource
	exitSetup  = 5 // the child cannot use the shared files, confine itself or serve
)

// Descriptors with which a child starts, after the standard ones.
const (
	lifelineFD = 3 // read end of a pipe; end of file means that the host has ended
	programFD  = 4 // file of the program, through which it was executed
	sharedFD   = 5 // first shared file of the host
	othersFD   = 8 // first number for files that the child opens itself
)

// ServeConfig configures a child program.
type ServeConfig struct {
	Handshake Handshake
	ByHand    string // text to print if the program was not started by a host
	Thread    string // name of the first thread, which ps(1) shows, and with Needs of all threads; at most 15 bytes
	// Prepare does the work that needs the initial privileges of the program. It is called only in the first start, on the
	// first thread, before Needs. It can pass descriptors without close-on-exec and the environment to the second start,
	// which follows the confinement. It may take a minute if it calls ReportProgress. An error ends the process. nil: there
	// is nothing to prepare. Prepare requires Needs.
	Prepare func() error
	// Needs returns the parts of the file system that the libraries of the program use. The
	// process gives up the rest, and all capabilities. nil: the process keeps everything. An
	// error ends the process. Needs is called in both starts.
	Needs func() (confine.Needs, error)
	// Shared is the number of files that the host shares, see Contract.Begin. It must match: the
	// child takes this number of descriptors as shared files without a check.
	Shared int
	// Make creates the service of the child before the handshake, and returns the function that
	// registers it. An error ends the process.
	Make func(Inherited) (register func(grpc.ServiceRegistrar), err error)
}

// Inherited has what a child gets from this package: the shared files of the host, and a
// function that ends the process.
type Inherited struct {
	Shared []*os.File       // the number is ServeConfig.Shared; Make has to close them
	End    func(stuck bool) // ends the process; stuck: the process could not close its resource
}

// pluginName is the name of the only service of a child in go-plugin.
const pluginName = "service"

func (h Handshake) config() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: uint(h.Version), MagicCookieKey: h.Key, MagicCookieValue: h.Value,
	}
}

// contractPlugin is the go-plugin plugin for a Contract. In the child, register registers its
// service; in the host, register is nil.
type contractPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

// GRPCServer implements plugin.GRPCPlugin.
func (p *contractPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	p.register(s)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin; it returns the connection.
func (*contractPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// Serve runs the child program. It serves one host until the host closes the stream. main has
// to call Serve first, on the first thread of the process, whose name Serve sets. If c.Needs
// is set, the process executes its program once more (confine.Enter). If Serve cannot serve,
// it returns the exit status for main. Otherwise it ends the process itself.
func Serve(c ServeConfig) int {
	if os.Getenv(c.Handshake.Key) != c.Handshake.Value {
		fmt.Fprintln(os.Stderr, c.ByHand)
		return exitByHand
	}
	closeProgram()
	if !confine.Again() {
		ReportProgress(stepStarting)
	}
	if c.Needs != nil {
		if err := c.enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitSetup
		}
	}
	// It is opened at once: Landlock permits the file that was there before the confinement, and the kernel may make another one when it
	// is short of memory.
	smaps, err := os.Open(memoryMap)
	if err != nil {
		fmt.Fprintln(os.Stderr, fmt.Errorf("open memory map: %w", err))
	}
	register, err := c.setUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitSetup
	}
	stdio := os.Stderr // go-plugin replaces the variable
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: c.Handshake.config(),
		Plugins:         plugin.PluginSet{pluginName: &contractPlugin{register: register}},
		GRPCServer:      func(o []grpc.ServerOption) *grpc.Server { return newServer(o, stdio, smaps) },
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: stdio}),
	})
	fmt.Fprintln(stdio, "go-plugin cannot serve the host")
	return exitSetup
}

// closeProgram closes the descriptor through which the process was executed. In the second
// start, the number belongs to another file, which closeProgram leaves open.
func closeProgram() {
	if flags, err := unix.FcntlInt(programFD, unix.F_GETFL, 0); err == nil && flags&unix.O_PATH != 0 {
		_ = unix.Close(programFD) // nothing was written
	}
}

// enter prepares the process, and confines it to the needs of the service and of this package.
func (c ServeConfig) enter() error {
	if err := dieWithHost(); err != nil {
		return err
	}
	if c.Prepare != nil && !confine.Again() {
		if err := c.Prepare(); err != nil {
			return fmt.Errorf("prepare this process: %w", err)
		}
	}
	n, err := c.Needs()
	if err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	n.Sockets, n.Name = os.Getenv(plugin.EnvUnixSocketDir), c.Thread
	n.Read = append(n.Read, memoryMap)
	if err := confine.Enter(n); err != nil {
		return fmt.Errorf("confine this process: %w", err)
	}
	return nil
}

// dieWithHost makes the kernel kill the process when the host ends, and exits if the host has already ended. The host set this
// parent-death signal between fork and exec, but the kernel clears it when it executes a program whose file has capabilities.
func dieWithHost() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent-death signal: %w", err)
	}
	// The PID of the parent does not tell whether it is the host. Only the host holds the other end of the lifeline.
	line := []unix.PollFd{{Fd: lifelineFD}}
	if _, err := unix.Poll(line, 0); err == nil && line[0].Revents&unix.POLLHUP != 0 {
		os.Exit(exitOrphan)
	}
	return nil
}

// setUp prepares the process as the host expects it, before any native code runs, and creates the service.
func (c ServeConfig) setUp() (register func(grpc.ServiceRegistrar), err error) {
	if err := clearStdout(); err != nil {
		return nil, err
	}
	if err := watchLifeline(); err != nil {
		return nil, err
	}
	// The service manager signals all processes of a unit at once, but the host decides when a
	// child ends.
	signal.Ignore(unix.SIGTERM, unix.SIGHUP)
	nameThread(c.Thread)
	limitMemory()
	in := Inherited{End: exit}
	for i := range c.Shared {
		unix.CloseOnExec(sharedFD + i)
		in.Shared = append(in.Shared, os.NewFile(uintptr(sharedFD+i), "shared file"))
	}
	return c.Make(in)
}

// exit ends the process with the status that tells the host whether the process was stuck.
func exit(stuck bool) {
	if stuck {
		os.Exit(exitStuck)
	}
	os.Exit(0)
}

// nameThread sets the name of the calling thread. ps(1) shows the name of the first thread,
// which the kernel took from the executed path, a link in /proc.
func nameThread(text string) {
	name, err := unix.BytePtrFromString(text)
	if err != nil {
		return // text contains a NUL and cannot be a name
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0) // an error only affects ps(1)
	runtime.KeepAlive(name)
}

// clearStdout reserves stdout for the handshake. Native libraries may print to descriptor 1, so
// it becomes a copy of stderr, and os.Stdout becomes the previous descriptor 1.
func clearStdout() error {
	fd, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, othersFD)
	if err != nil {
		return fmt.Errorf("keep stdout for the handshake: %w", err)
	}
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		return fmt.Errorf("point stdout to stderr: %w", err)
	}
	os.Stdout = os.NewFile(uintptr(fd), "handshake")
	return nil
}

// watchLifeline starts a goroutine that ends the process when the host has ended.
func watchLifeline() error {
	unix.CloseOnExec(lifelineFD)
	// A non-blocking descriptor waits in the network poller, which needs no thread.
	if err := unix.SetNonblock(lifelineFD, true); err != nil {
		return fmt.Errorf("open lifeline to the host: %w", err)
	}
	f := os.NewFile(lifelineFD, "lifeline")
	go func() {
		_, err := f.Read(make([]byte, 1))
		if !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, "lifeline to the host:", err)
		}
		os.Exit(exitOrphan)
	}()
	return nil
}

// startTime is the time after the first stream after which the start of a child counts as
// complete.
const startTime = 5 * time.Second

// newServer returns a gRPC server with small buffers. At the first stream of the contract, it
// sets Go's standard streams to stdio, because go-plugin has replaced them by pipes that no
// process reads. After the start it releases memory by smaps and closes smaps; nil: it does not.
func newServer(opts []grpc.ServerOption, stdio, smaps *os.File) *grpc.Server {
	const buffer = 8 << 10
	completeStart := sync.OnceFunc(func() {
		os.Stdout, os.Stderr = stdio, stdio
		if smaps == nil {
			return
		}
		time.AfterFunc(startTime, func() {
			defer smaps.Close()
			if err := releaseStartMemory(smaps); err != nil {
				fmt.Fprintln(stdio, err)
			}
		})
	})
	return grpc.NewServer(append(opts, grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
			if !strings.HasPrefix(info.FullMethod, "/plugin.") { // services of go-plugin itself
				completeStart()
			}
			return serve(srv, stream)
		}))...)
}
