package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/status"
)

// The test program is its own child, and its own host. These variables select its role
// and its fault.
const (
	modeKey = "RDMA_EVENTS_TEST_MODE"
	hostKey = "RDMA_EVENTS_TEST_HOST"
	noteKey = "RDMA_EVENTS_TEST_NOTE" // a file to write to
)

// Serve has to be called on the first thread of the process.
func init() {
	if os.Getenv(modeKey) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if mode := os.Getenv(hostKey); mode != "" {
		hostMain(mode)
	}
	if mode := os.Getenv(modeKey); mode != "" {
		os.Exit(childMain(mode))
	}
	goleak.VerifyTestMain(m)
}

// childMain is the child program with a fault.
func childMain(mode string) int {
	f := &fault{mode: mode}
	c := serveConfig()
	c.Make = f.serve
	if early := earlyFaults()[mode]; early != nil {
		return early()
	}
	switch mode {
	case "is confined":
		c.Needs = func() (confine.Needs, error) { return confine.Needs{}, nil }
	case "has no lifeline", "has neither", "is executed with capabilities":
		var p [2]int // its write end stays open here
		must(unix.Pipe(p[:]))
		must(unix.Dup3(p[0], lifelineFD, 0))
	}
	switch mode {
	case "is executed with capabilities": // which clears the parent-death signal
		c.Needs = func() (confine.Needs, error) { return confine.Needs{}, nil }
		fallthrough
	case "has no parent-death signal", "has neither":
		must(unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0))
	case "has no shared memory":
		must(unix.Close(sharedFD))
	}
	return Serve(c)
}

func serveConfig() ServeConfig {
	return ServeConfig{
		Handshake: testHandshake(), ByHand: "it is not to be started by hand", Thread: "test-child-main", Shared: 1,
	}
}

type sender = func(message) error

// earlyFaults are the faults of a program that never serves.
func earlyFaults() map[string]func() int {
	return map[string]func() int{
		"exits early":     func() int { fmt.Fprintln(os.Stderr, "no luck today"); return 7 },
		"is killed early": func() int { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
		"crashes early":   func() int { _ = unix.Kill(os.Getpid(), unix.SIGSEGV); select {} },
		"exits with a status of ours": func() int {
			grpclog.Error("what gRPC says is not for stderr")
			return exitStuck
		},
		"hangs early": func() int {
			fmt.Fprintln(os.Stderr, "thinking")
			if note := os.Getenv(noteKey); note != "" {
				must(os.WriteFile(note, nil, 0o600))
			}
			return sleepForEver()
		},
		"is another program":      func() int { fmt.Println("usage: something else"); return sleepForEver() },
		"prints for ever":         func() int { _, _ = io.Copy(os.Stdout, zeros{}); return 0 },
		"prepares slowly":         func() int { return preparesUntil(readyNote) },
		"hangs while it prepares": func() int { return preparesUntil(func() { sleepForEver() }) },
		"prepares":                func() int { return servePreparing(false) },
		"cannot prepare":          func() int { return servePreparing(true) },
		"has another cookie":      func() int { os.Unsetenv(testHandshake().Key); return Serve(serveConfig()) },
		"is of another release": func() int {
			h := testHandshake()
			h.Version++
			plugin.Serve(&plugin.ServeConfig{
				HandshakeConfig: h.config(), GRPCServer: plugin.DefaultGRPCServer,
				Plugins: plugin.PluginSet{pluginName: &contractPlugin{register: talker(nil).register}},
			})
			return 0
		},
		"is mute after the handshake": func() int { shakeHands(); return sleepForEver() },
		"dies after the handshake":    func() int { shakeHands(); return 9 },
	}
}

// sleepForEver does not end with the lifeline, like a loader that hangs.
func sleepForEver() int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	for range c {
	}
	return 0
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func shakeHands() {
	path := filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), "mute")
	_, err := net.Listen("unix", path)
	must(err)
	fmt.Printf("1|%d|unix|%s|grpc|\n", testHandshake().Version, path)
}

// printNatively prints as a C library does: to descriptor 1, a banner and a
// line longer than any buffer.
func printNatively(when string) {
	_, err := unix.Write(unix.Stdout, []byte("vendor banner v1.2 "+when+"\n"))
	must(err)
	for rest := bytes.Repeat([]byte("x"), 200<<10); len(rest) > 0; {
		n, err := unix.Write(unix.Stdout, rest)
		must(err)
		rest = rest[n:]
	}
	_, err = unix.Write(unix.Stdout, []byte("\n"))
	must(err)
}

// fault is the fault of a child.
type fault struct {
	mode   string
	stdout *os.File // the stdout with which the process began
	led    *ledger.Ledger
	end    func(stuck bool)
}

// serve makes a child with the fault.
func (f *fault) serve(in Inherited) (func(grpc.ServiceRegistrar), error) {
	defer in.Shared[0].Close()
	led, err := ledger.Open(in.Shared[0])
	if err != nil {
		return nil, err
	}
	f.stdout, f.led, f.end = os.Stdout, led, in.End
	switch f.mode {
	case "prints":
		printNatively("before the handshake")
	case "stops before the handshake":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	return talker(f.talk).register, nil
}

// talk handles the child's stream with the fault. The process ends once its host has
// closed the stream.
func (f *fault) talk(ctx context.Context, send sender) error {
	err := f.send(ctx, send)
	<-ctx.Done()
	f.end(false)
	return err
}

func (f *fault) send(ctx context.Context, send sender) error {
	mode := f.mode
	if mode == "reports itself" {
		return send(endedMessage(status.ReasonRemoved, selfReport()))
	}
	if reason, ok := strings.CutPrefix(mode, "ends with "); ok {
		return send(endedMessage(status.Reason(reason), "mlx5_0: "+reason))
	}
	if mode == "prints" {
		printNatively("after the handshake")
	}
	if err := send("opened"); err != nil {
		return err
	}
	l := f.led
	l.Count(10, 1, 3, 2)
	switch mode {
	case "crashes in a call":
		l.SetEvidenceCall(ledger.ThreadCall{Call: ledger.CallReadSysfs, Port: 1, Thread: os.Getpid(), Since: 1}) // a longer call of another thread
		inCall(l, ledger.CallGetAsyncEvent)
		must(unix.Kill(os.Getpid(), unix.SIGSEGV))
	case "panics":
		panic("index of nothing")
	case "is killed":
		must(unix.Kill(os.Getpid(), unix.SIGKILL))
	case "stops":
		must(unix.Kill(os.Getpid(), unix.SIGSTOP))
	case "does not beat":
		inCall(l, ledger.CallQueryPort)
		<-ctx.Done()
		return ctx.Err()
	case "is stuck in a call":
		inCall(l, ledger.CallDestroyCQ)
	case "does not close", "has no lifeline", "has no parent-death signal", "is executed with capabilities":
		inCall(l, ledger.CallCloseDevice)
		_ = sendBeats(ctx, send)
		<-context.Background().Done()
	case "cannot close":
		inCall(l, ledger.CallDestroyQP)
		f.end(true)
	case "has a child and is killed":
		f.haveChild(&syscall.SysProcAttr{})
		must(unix.Kill(os.Getpid(), unix.SIGKILL))
	case "has an escaped child and is killed":
		f.haveChild(&syscall.SysProcAttr{Setsid: true})
		must(unix.Kill(os.Getpid(), unix.SIGKILL))
	case "prints a lot":
		for i := range 100_000 {
			fmt.Fprintln(os.Stderr, "event", i)
		}
	case "prints by Go":
		fmt.Println(strings.Repeat("y", 200<<10))
	}
	return sendBeats(ctx, send)
}

// haveChild starts a process that keeps the child's stdout and stderr open, and writes its PID to the note.
func (f *fault) haveChild(attr *syscall.SysProcAttr) {
	c := exec.Command("sleep", "1000")
	c.Stdout, c.Stderr, c.SysProcAttr = f.stdout, os.Stderr, attr
	must(c.Start())
	must(os.WriteFile(os.Getenv(noteKey), fmt.Append(nil, c.Process.Pid), 0o600))
}

func sendBeats(ctx context.Context, send sender) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := send("beat"); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// selfReport returns everything that the process has inherited.
func selfReport() string {
	var b strings.Builder
	for _, kv := range os.Environ() {
		fmt.Fprintln(&b, "env", kv)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	must(err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fmt.Fprintln(&b, "fd", e.Name(), to)
		}
	}
	cwd, err := os.Getwd()
	must(err)
	comm, err := os.ReadFile("/proc/self/comm")
	must(err)
	fmt.Fprintln(&b, "cwd", cwd)
	fmt.Fprintln(&b, "args", os.Args)
	fmt.Fprintf(&b, "comm %s", comm)
	fmt.Fprintln(&b, "leader", unix.Getpgrp() == os.Getpid())
	return b.String()
}

// hostMain supervises a child of the given mode until it is killed itself, or tries to
// connect to one.
func hostMain(mode string) {
	os.Unsetenv(hostKey)
	if mode == "dials" {
		_, err := net.Dial("unix", os.Getenv(noteKey))
		fmt.Print(err)
		os.Exit(0)
	}
	exe, err := OpenExe("/proc/self/exe")
	must(err)
	dir, err := OpenDir(os.Getenv(noteKey))
	must(err)
	c := testSpec()
	c.Exe, c.Dir, c.Env = exe, dir, helperEnv(mode, os.Getenv(noteKey))
	s := New(c, announcer{&testContract{recorder: newRecorder()}})
	must(s.Run(context.Background()))
}

// announcer prints the PID of the running child.
type announcer struct{ *testContract }

func (a announcer) Begin() (Attempt[message], []*os.File, error) {
	one, files, err := a.testContract.Begin()
	return announced{one}, files, err
}

type announced struct{ Attempt[message] }

func (announced) Ended(e status.End) { fmt.Println("ended", e) }

func (announced) Take(_ message, s status.Status) {
	if s.State == status.StateRunning {
		fmt.Println(s.PID)
	}
}
