package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is one child process; it implements go-plugin's runner. The methods may be called
// concurrently. One goroutine of its own forks the process, waits for it and reaps it.
// That goroutine is locked to its thread: the kernel sends the parent-death signal when
// the forking thread ends, not when the process does. exited is closed when the child has
// been reaped and its process group is empty.
type child struct {
	cmd      *exec.Cmd
	name     string // the name of the program's file
	tap      *tap
	stderr   *os.File
	lifeline *os.File
	theirs   []*os.File // the files that the child gets; closed after the fork
	exited   chan struct{}

	born func() // called after the fork

	mu     sync.Mutex
	begun  bool
	doomed bool             // killed, perhaps before the fork
	pid    int              // 0: not forked
	ended  *os.ProcessState // nil: not reaped
}

// strayLimit is how long the pipes of a child that is gone are still read. They have its
// final output by then. Only a process that left the child's group can write more, and it
// must not block the supervisor.
const strayLimit = 500 * time.Millisecond

// newChild prepares a child that runs s.Exe and gets shared as its descriptors from 5 on.
// newChild takes over shared; the caller calls Start or discard. The
// child executes its own descriptor 4, a copy of s.Exe. The number that s.Exe has in the
// host would not do: between fork and exec Go moves its error pipe to a number above the
// child's descriptors, and that may be the number of s.Exe.
func newChild(s *Spec, shared []*os.File) (*child, error) {
	c := &child{exited: make(chan struct{}), theirs: slices.Clone(shared), born: func() {}}
	var outs, ends [3]*os.File // ends are written to
	for i := range outs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(slices.Concat(c.theirs, outs[:], ends[:]))
			return nil, fmt.Errorf("make pipes of the child: %w", err)
		}
		outs[i] = r
		ends[i] = w
	}
	// The lifeline is the only pipe whose read end the child gets.
	readEnd := outs[2]
	c.tap, c.stderr = &tap{File: outs[0]}, outs[1]
	c.lifeline = ends[2]
	c.theirs = append(c.theirs, ends[0], ends[1], readEnd)

	c.name = s.Exe.Name()
	c.cmd = &exec.Cmd{
		Path:        "/proc/self/fd/" + strconv.Itoa(programFD),
		Args:        []string{s.Name, s.Title},
		Dir:         "/",
		Stdout:      ends[0],
		Stderr:      ends[1],
		ExtraFiles:  append([]*os.File{readEnd, s.Exe}, shared...),
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
	go c.run(forked)
	select {
	case err := <-forked:
		return err
	case <-ctx.Done():
		return fmt.Errorf("execute %s: %w", c.name, ctx.Err())
	}
}

func (c *child) run(forked chan<- error) {
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
	// If the deadline cannot be set the pipes are read to their end of file.
	_ = c.tap.SetReadDeadline(time.Now().Add(strayLimit))
	_ = c.stderr.SetReadDeadline(time.Now().Add(strayLimit))
}

func (c *child) fork() error {
	if err := c.cmd.Start(); err != nil {
		// The path in the error is the path of a descriptor.
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

// reap waits for the child and kills the rest of its group before it collects the exit
// status. Until then no other process can get the child's number.
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
	_ = c.cmd.Wait() // only the status is of interest
	c.ended = c.cmd.ProcessState
}

// kill sends SIGKILL to the child and its group, at once or as soon as the child is
// forked. It does not block.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doomed = true
	c.signal()
}

// signal sends SIGKILL to the child and its group. The caller holds c.mu.
func (c *child) signal() {
	if c.pid == 0 || c.ended != nil {
		return
	}
	// An error means that there is no process to kill. The child itself also gets the
	// signal, in case it left its group.
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

// close closes the pipes once no goroutine reads them.
func (c *child) close() { closeAll([]*os.File{c.tap.File, c.stderr}) }

// state returns the child's process number and, once it is reaped, how it ended.
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

// Name implements runner.Runner. It names the logger to which go-plugin copies the
// child's stderr.
func (c *child) Name() string { return stderrLoggerName }

// ID implements runner.Runner. It is never empty: go-plugin does not remove its socket
// directory for a process without an ID.
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
