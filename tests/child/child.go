package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// ErrKilled is wrapped by the error of Stop if the program did not end in time.
var ErrKilled = errors.New("had to be killed")

// Process is a running program. Its methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
}

// Start starts cmd. The caller must not use cmd afterwards, and must call Stop.
// The program gets its own process group, so that Ctrl-C reaches only the
// caller, which then stops the program in an orderly way. The kernel kills the
// program when the caller dies.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, name: filepath.Base(cmd.Path), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // State reports how it ended
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed once the process has ended and its
// output is written.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns a text that describes how the process ended. It is valid once
// Done is closed.
func (p *Process) State() string { return p.name + ": " + p.cmd.ProcessState.String() }

// Stop sends SIGTERM and waits until the process has ended. After grace it kills
// the process and returns an error that wraps ErrKilled. It may be called more
// than once.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("stop %s: not within %s: %w", p.name, grace, ErrKilled)
}

func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}
