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

// child is one child process. It implements go-plugin's runner. The methods may be called
// concurrently. A separate goroutine forks the process, waits for it and reaps it. That
// goroutine is locked to its thread, because the kernel sends the parent-death signal when
// the forking thread ends, not when the process ends.
type child struct {
	cmd        *exec.Cmd
	name       string // name of the program's file
	tap        *tap
	stderr     *os.File
	lifeline   *os.File
	childFiles []*os.File    // files for the child; closed after the fork
	exited     chan struct{} // closed when the child has been reaped and its process group is empty

	onFork func() // called after the fork

	mu     sync.Mutex
	begun  bool
	killed bool             // kill was called, perhaps before the fork
	pid    int              // 0: not forked
	ended  *os.ProcessState // nil: not reaped
}

// strayLimit is the time for which the pipes of an ended child are still read. This suffices
// for its final output. Only a process that left the child's group can write more, and such a
// process must not block the supervisor.
const strayLimit = 500 * time.Millisecond

// newChild prepares a child that runs s.Exe and gets shared as its descriptors from 5 on.
// newChild takes ownership of shared. The caller has to call Start or discard. The child
// executes its own descriptor 4, a copy of s.Exe. It cannot use the number that s.Exe has in
// the host: between fork and exec, Go moves its error pipe to a number above the child's
// descriptors, which may be that number.
func newChild(s *Spec, shared []*os.File) (*child, error) {
	c := &child{exited: make(chan struct{}), childFiles: slices.Clone(shared), onFork: func() {}}
	var outs, ends [3]*os.File // read ends and write ends of the pipes
	for i := range outs {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(slices.Concat(c.childFiles, outs[:], ends[:]))
			return nil, fmt.Errorf("make pipes of the child: %w", err)
		}
		outs[i] = r
		ends[i] = w
	}
	// The lifeline is the only pipe whose read end the child gets.
	readEnd := outs[2]
	c.tap, c.stderr = &tap{File: outs[0]}, outs[1]
	c.lifeline = ends[2]
	c.childFiles = append(c.childFiles, ends[0], ends[1], readEnd)

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

// run forks the child, and reaps it after its end.
func (c *child) run(forked chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.exited)
	err := c.fork()
	closeAll(c.childFiles)
	if err == nil {
		c.onFork()
	}
	forked <- err
	if err == nil {
		c.reap()
	}
	closeAll([]*os.File{c.lifeline})
	// If a deadline cannot be set, the pipe is read to its end of file.
	_ = c.tap.SetReadDeadline(time.Now().Add(strayLimit))
	_ = c.stderr.SetReadDeadline(time.Now().Add(strayLimit))
}

func (c *child) fork() error {
	if err := c.cmd.Start(); err != nil {
		// Omit the path in the error, which is the path of a descriptor.
		if at := (*os.PathError)(nil); errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("execute %s: %w", c.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = c.cmd.Process.Pid
	if c.killed {
		c.signal()
	}
	return nil
}

// reap waits for the end of the child, and kills the rest of its process group before it
// collects the exit status. Until then, no other process can get the child's PID.
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
	_ = c.cmd.Wait() // only the exit status is of interest
	c.ended = c.cmd.ProcessState
}

// kill sends SIGKILL to the child and its process group, immediately or right after the fork.
// It does not block.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	c.signal()
}

// signal sends SIGKILL to the child and its process group. The caller holds c.mu.
func (c *child) signal() {
	if c.pid == 0 || c.ended != nil {
		return
	}
	// An error means that there is no process to kill. The signal also goes to the child
	// itself, in case it left its group.
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	_ = unix.Kill(c.pid, unix.SIGKILL)
}

// discard releases a child that has not been started and will not be started.
func (c *child) discard() {
	c.mu.Lock()
	begun := c.begun
	c.begun = true
	c.mu.Unlock()
	if begun {
		return
	}
	closeAll(append(c.childFiles, c.lifeline))
	close(c.exited)
}

// close closes the pipes once no goroutine reads them.
func (c *child) close() { closeAll([]*os.File{c.tap.File, c.stderr}) }

// state returns the PID of the child and, once it is reaped, how it ended.
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
