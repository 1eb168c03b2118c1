package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is one worker process, as go-plugin's runner. Its methods may be
// called concurrently. It forks, waits and reaps in one goroutine of its own,
// which is locked to its thread: the kernel sends a parent-death signal when
// the forking thread ends, not the process. exited is closed when the worker
// has been reaped and nothing of its process group is left.
type child struct {
	cmd      *exec.Cmd
	name     string // of the program's file
	tap      *tap
	stderr   *os.File
	lifeline *os.File
	theirs   []*os.File // the worker's ends
	exited   chan struct{}

	born func() // called after the fork

	mu     sync.Mutex
	begun  bool
	doomed bool             // killed, perhaps before there was anything to kill
	pid    int              // 0: not forked
	ended  *os.ProcessState // nil: not reaped
}

// strayLimit is how long the pipes of a worker that is gone are still read. Its
// last words are in them by then; only a process that escaped its group can
// write more, and must not hold the supervisor.
const strayLimit = 500 * time.Millisecond

// newChild prepares a worker that runs s.Exe and gets shared, unless that is nil, as
// its descriptor 4. It takes over shared; the caller calls Start or discard. The file
// is executed as one of the worker's own descriptors: the fork rearranges others,
// and may put the pipe that reports its errors in the place of any.
func newChild(s *Spec, shared *os.File) (*child, error) {
	c := &child{exited: make(chan struct{}), theirs: []*os.File{shared}, born: func() {}}
	var outs [3]*os.File
	for i := range outs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(c.theirs, outs[:]...))
			return nil, fmt.Errorf("make pipes of the worker: %w", err)
		}
		outs[i] = r
		c.theirs = append(c.theirs, w)
	}
	// The lifeline is the one pipe whose read end is the worker's.
	life := outs[2]
	c.tap, c.stderr = &tap{File: outs[0]}, outs[1]
	c.lifeline, c.theirs[3] = c.theirs[3], life

	c.name = s.Exe.Name()
	c.cmd = &exec.Cmd{
		Path:        "/proc/self/fd/" + strconv.Itoa(programFD),
		Args:        []string{s.Name, s.Title},
		Dir:         "/",
		Stdout:      c.theirs[1],
		Stderr:      c.theirs[2],
		ExtraFiles:  []*os.File{life, shared, s.Exe},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	return c, nil
}

// Start implements runner.Runner.
func (c *child) Start(ctx context.Context) error {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
	forked := make(chan error, 1)
	go c.live(forked)
	select {
	case err := <-forked:
		return err
	case <-ctx.Done():
		return fmt.Errorf("execute %s: %w", c.name, ctx.Err())
	}
}

func (c *child) live(forked chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.exited)
	err := c.fork()
	closeAll(c.theirs)
	if err == nil {
		c.born()
	}
	forked <- err
	if err == nil {
		c.reap()
	}
	closeAll([]*os.File{c.lifeline})
	// An error leaves the pipes to their end of file.
	_ = c.tap.SetReadDeadline(time.Now().Add(strayLimit))
	_ = c.stderr.SetReadDeadline(time.Now().Add(strayLimit))
}

func (c *child) fork() error {
	if err := c.cmd.Start(); err != nil {
		// The path in the error is that of a descriptor.
		if at := (*os.PathError)(nil); errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("execute %s: %w", c.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = c.cmd.Process.Pid
	if c.doomed {
		c.signal()
	}
	return nil
}

// reap waits for the worker and kills what is left of its group before it
// takes the exit status, while its number cannot be used again.
func (c *child) reap() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Wait() // the status is all that is of interest
	c.ended = c.cmd.ProcessState
}

// kill sends SIGKILL to the worker and its group, at once or as soon as it is
// forked. It does not block.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = true
	c.signal()
}

// signal is kill for who holds c.mu.
func (c *child) signal() {
	if c.pid == 0 || c.ended != nil {
		return
	}
	// Errors mean that there is nobody to kill. The worker itself is named too
	// in case it left its group.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = unix.Kill(c.pid, unix.SIGKILL)
}

// discard releases a child that was not started and will not be.
func (c *child) discard() {
	c.mu.Lock()
	begun := c.begun
	c.begun = true
	c.mu.Unlock()
	if begun {
		return
	}
	closeAll(append(c.theirs, c.lifeline))
	close(c.exited)
}

// close releases the pipes once nobody reads them.
func (c *child) close() { closeAll([]*os.File{c.tap.File, c.stderr}) }

// state returns the worker's number and, once it is reaped, how it ended.
func (c *child) state() (pid int, ended *os.ProcessState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid, c.ended
}

// Wait implements runner.Runner.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return nil
}

// Kill implements runner.Runner.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return c.tap }

// Stderr implements runner.Runner.
func (c *child) Stderr() io.ReadCloser { return c.stderr }

// Name implements runner.Runner. It names the logger that go-plugin copies the
// worker's stderr to.
func (c *child) Name() string { return stderrLoggerName }

// ID implements runner.Runner. It is never empty: go-plugin would leave its
// socket directory behind for a process without one.
func (c *child) ID() string {
	pid, _ := c.state()
	return strconv.Itoa(pid)
}

// Diagnose implements runner.Runner.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (c *child) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing was written through it
		}
	}
}

// tap is the worker's stdout. It remembers how the first line begins, which
// tells another program from a worker of another release.
type tap struct {
	*os.File
	mu    sync.Mutex
	first []byte
	full  bool
}

// Read implements io.Reader.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range p[:n] {
		if t.full = t.full || b == '\n' || len(t.first) == 256; t.full {
			break
		}
		t.first = append(t.first, b)
	}
	return n, err
}

func (t *tap) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.first)
}
