package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"rdma_events/internal/confine"
	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// ServeConfig is what a worker program is made of.
type ServeConfig struct {
	// Watch watches until ctx is done; session.Run is meant.
	Watch func(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options,
		send func(verbs.Batch) error) error
	// Backend makes the backend that a request names. It is called after the
	// handshake and may call into native libraries.
	Backend func(verbs.Request) (verbs.Backend, error)
	// Needs returns what Backend's libraries use of the file system; the process
	// gives up the rest, and all capabilities. nil: it keeps everything.
	Needs func() confine.Needs

	ready func() // for tests: called before the handshake
}

// Serve is the worker program: it serves one host until that lets go of it. main
// calls it first, on the process' first thread, whose name it sets; if c.Needs is
// set the process executes its program once more (confine.Enter). Serve
// returns the exit status for main when it cannot, and otherwise ends the
// process itself.
func Serve(c ServeConfig) int {
	h := handshake()
	if os.Getenv(h.MagicCookieKey) != h.MagicCookieValue {
		fmt.Fprintln(os.Stderr, "rdma-events-worker is started by rdma-events, one for each RDMA device; "+
			"it is not to be started by hand")
		return exitByHand
	}
	closeProgram()
	if c.Needs != nil {
		if err := confine.Enter(c.needs()); err != nil {
			fmt.Fprintln(os.Stderr, "confine the worker:", err)
			return exitSetup
		}
	}
	led, err := setUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitSetup
	}
	if c.ready != nil {
		c.ready()
	}
	log := os.Stderr // go-plugin replaces the variable
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: h,
		Plugins: plugin.PluginSet{pluginName: &border{service: &service{
			watch: c.Watch, backend: c.Backend, ledger: led, stdio: log, exit: os.Exit,
		}}},
		GRPCServer: server,
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: log}),
	})
	fmt.Fprintln(log, "the host cannot be served")
	return exitSetup
}

// closeProgram closes the descriptor that the process was executed by. If it was
// executed again since, the number is somebody else's.
func closeProgram() {
	if flags, err := unix.FcntlInt(programFD, unix.F_GETFL, 0); err == nil && flags&unix.O_PATH != 0 {
		_ = unix.Close(programFD) // nothing was written
	}
}

// needs adds what the contract itself takes to what the backend needs.
func (c ServeConfig) needs() confine.Needs {
	n := c.Needs()
	n.Sockets = os.Getenv(plugin.EnvUnixSocketDir)
	n.Read = append(n.Read, memoryMap)
	if path := os.Getenv(readKey); path != "" {
		n.Read = append(n.Read, path)
	}
	return n
}

// setUp makes the process what the contract says, before anything native runs.
func setUp() (*ledger.Ledger, error) {
	if err := clearStdout(); err != nil {
		return nil, err
	}
	if err := watchLifeline(); err != nil {
		return nil, err
	}
	// The service manager signals all processes of a unit at once; the host
	// decides when a worker ends.
	signal.Ignore(unix.SIGTERM, unix.SIGHUP)
	nameThread()
	beSmall()
	unix.CloseOnExec(ledgerFD)
	f := os.NewFile(ledgerFD, "ledger")
	defer f.Close()
	return ledger.Open(f)
}

// nameThread gives the calling thread a name. That of the first thread is what ps
// shows; the kernel took it from the path that was executed, a link in /proc.
func nameThread() {
	name, err := unix.BytePtrFromString("rdma-ev-worker")
	if err != nil {
		return // it has no NUL
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0) // for ps only
	runtime.KeepAlive(name)
}

// clearStdout keeps the handshake to itself: descriptor 1 becomes stderr, for
// native libraries print to it, and os.Stdout what descriptor 1 was.
func clearStdout() error {
	fd, err := unix.FcntlInt(uintptr(unix.Stdout), unix.F_DUPFD_CLOEXEC, programFD)
	if err != nil {
		return fmt.Errorf("keep stdout for the handshake: %w", err)
	}
	if err := unix.Dup3(unix.Stderr, unix.Stdout, 0); err != nil {
		return fmt.Errorf("point stdout to stderr: %w", err)
	}
	os.Stdout = os.NewFile(uintptr(fd), "handshake")
	return nil
}

// watchLifeline ends the process when the host is gone. Its goroutine lives as
// long as the process does.
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

func server(opts []grpc.ServerOption) *grpc.Server {
	const buffer = 8 << 10
	return grpc.NewServer(append(opts, grpc.ReadBufferSize(buffer), grpc.WriteBufferSize(buffer))...)
}
