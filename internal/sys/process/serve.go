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

// The exit statuses of a child, beside 0 and those of the Go runtime. A panic is 2 as
// well; its output differs from that of exitByHand.
const (
	exitByHand = 2 // not started by a host
	exitOrphan = 3 // the host is gone
	exitStuck  = 4 // it could not close what it held
	exitSetup  = 5 // it cannot use what the host handed over, or cannot confine itself or serve
)

// The descriptors that a child is started with, after the standard ones.
const (
	lifelineFD = 3 // the read end of a pipe; at its end of file the host is gone
	programFD  = 4 // the program's file, through which it was executed
	sharedFD   = 5 // the first file that the host shares
	othersFD   = 8 // from here on are files that the child opens itself
)

// ServeConfig has the parts of a child program.
type ServeConfig struct {
	Handshake Handshake
	ByHand    string // the text that it prints when it was not started by a host
	Thread    string // the name of its first thread, which ps(1) shows, and with Needs of all threads; at most 15 bytes
	// Prepare does what takes the privileges that the program was started with. It is called in the first start only, on
	// the first thread, before Needs. What it leaves to the second start, after the confinement, are descriptors that are
	// not closed by exec, and the environment. It may take a minute if it calls ReportProgress. An error ends the process.
	// nil: there is nothing to prepare. It needs Needs.
	Prepare func() error
	// Needs returns the parts of the file system that its libraries use. The process
	// gives up the rest, and all capabilities. nil: it keeps everything. An error ends the
	// process. It is called in each of the two starts.
	Needs func() (confine.Needs, error)
	// Shared is how many files the host hands over, see Contract.Begin. If it does not,
	// their descriptors are any files of the process.
	Shared int
	// Make makes the child's service before the handshake, and returns the function that
	// registers it. An error ends the process.
	Make func(Inherited) (register func(grpc.ServiceRegistrar), err error)
}

// Inherited has the things that Make gets: the shared files of the host, and a way to end
// the process.
type Inherited struct {
	Shared []*os.File       // as many as ServeConfig.Shared; Make closes them
	End    func(stuck bool) // ends the process; stuck: it could not close what it holds
}

// pluginName is go-plugin's name of the one service of a child.
const pluginName = "service"

func (h Handshake) config() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion: uint(h.Version), MagicCookieKey: h.Key, MagicCookieValue: h.Value,
	}
}

// contractPlugin is a contract as go-plugin's plugin: register registers the service of
// the child, and is nil in the host.
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

// Serve is the child program: it serves one host until the host closes the stream. main
// calls Serve first, on the process' first thread; Serve sets the name of that thread. If
// c.Needs is set, the process executes its program once more (confine.Enter). If it
// cannot serve, Serve returns the exit status for main; otherwise it ends the process
// itself.
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
	register, err := c.setUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitSetup
	}
	stdio := os.Stderr // go-plugin replaces the variable
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: c.Handshake.config(),
		Plugins:         plugin.PluginSet{pluginName: &contractPlugin{register: register}},
		GRPCServer:      func(o []grpc.ServerOption) *grpc.Server { return newServer(o, stdio) },
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: stdio}),
	})
	fmt.Fprintln(stdio, "the host cannot be served")
	return exitSetup
}

// closeProgram closes the descriptor through which the process was executed. If the
// process was executed again since, the number belongs to another file.
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

// dieWithHost makes the kernel kill the process when the host is gone, and ends it if the host is gone already. The host
// has asked for that signal between fork and exec, but the kernel forgets it when a program with capabilities of its own is
// executed.
func dieWithHost() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set parent-death signal: %w", err)
	}
	// The number of the parent does not say whether that is the host. Only the host holds the other end of the lifeline.
	line := []unix.PollFd{{Fd: lifelineFD}}
	if _, err := unix.Poll(line, 0); err == nil && line[0].Revents&unix.POLLHUP != 0 {
		os.Exit(exitOrphan)
	}
	return nil
}

// setUp prepares the process as its host expects it, before any native code runs.
func (c ServeConfig) setUp() (register func(grpc.ServiceRegistrar), err error) {
	if err := clearStdout(); err != nil {
		return nil, err
	}
	if err := watchLifeline(); err != nil {
		return nil, err
	}
	// The service manager signals all processes of a unit at once; the host
	// decides when a child ends.
	signal.Ignore(unix.SIGTERM, unix.SIGHUP)
	nameThread(c.Thread)
	beSmall()
	in := Inherited{End: end}
	for i := range c.Shared {
		unix.CloseOnExec(sharedFD + i)
		in.Shared = append(in.Shared, os.NewFile(uintptr(sharedFD+i), "shared file"))
	}
	return c.Make(in)
}

func end(stuck bool) {
	if stuck {
		os.Exit(exitStuck)
	}
	os.Exit(0)
}

// nameThread sets the name of the calling thread. ps shows the name of the first thread.
// The kernel took that name from the path that was executed, a link in /proc.
func nameThread(text string) {
	name, err := unix.BytePtrFromString(text)
	if err != nil {
		return // text has a NUL and cannot be a name
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0) // for ps only
	runtime.KeepAlive(name)
}

// clearStdout reserves stdout for the handshake. Descriptor 1 becomes stderr, since
// native libraries print to it, and os.Stdout becomes the previous descriptor 1.
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

// watchLifeline ends the process when the host is gone. Its goroutine runs as long as the
// process.
func watchLifeline() error {
	unix.CloseOnExec(lifelineFD)
	// Waiting in the network poller costs no thread.
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

// startTime is how long after the first stream the start of a child is complete.
const startTime = 5 * time.Second

// newServer makes a gRPC server with small buffers. At the first stream of the contract
// it restores Go's standard streams to stdio: go-plugin points them at pipes that no
// process reads.
func newServer(opts []grpc.ServerOption, stdio *os.File) *grpc.Server {
	const buffer = 8 << 10
	begin := sync.OnceFunc(func() {
		os.Stdout, os.Stderr = stdio, stdio
		time.AfterFunc(startTime, func() {
			if err := forgetStart(); err != nil {
				fmt.Fprintln(stdio, err)
			}
		})
	})
	return grpc.NewServer(append(opts, grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, serve grpc.StreamHandler) error {
			if !strings.HasPrefix(info.FullMethod, "/plugin.") { // go-plugin's own
				begin()
			}
			return serve(srv, stream)
		}))...)
}
