package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// ErrNoAnswer is in the error of Once.Run if the program did not end in time and was killed. If
// the process does not end in time after that, because the kernel holds it or because it gets no CPU
// time, Run leaves the process behind and the error also wraps ErrAbandoned.
var ErrNoAnswer = errors.New("no answer")

// Once runs a program for one answer. Run returns in time regardless of what the program does.
type Once struct {
	Exe   *os.File      // the program, from OpenExe; the caller closes it after Run
	Name  string        // argument 0, which ps(1) shows
	Args  []string      // further arguments
	Env   []string      // complete environment, "key=value"
	Limit time.Duration // limit for the complete answer; the program is killed after it
	Kill  time.Duration // limit for a killed process to end; 0: as in DefaultTiming

	kill func(*child) // nil: (*child).kill; only tests set it
}

// Answer holds the output of a program until it ended, or was killed or left behind.
type Answer struct {
	Stdout []byte
	Stderr string // without surrounding white space
	Status int    // the exit status; -1 if it has none
}

// Limits of an answer. Further output is read and dropped.
const (
	mostStdout = 16 << 20
	mostStderr = stderrTail
)

// Run runs the program and waits for its end, its limit or the end of ctx. An exit status other
// than 0 is not an error. If a signal ends the process, the limit is reached, the process is
// left behind or ctx ends, Run returns an error, and the Answer has the output until then. Run
// may be called repeatedly and concurrently.
func (o *Once) Run(ctx context.Context) (Answer, error) {
	c, err := newChild(&Spec{Exe: o.Exe, Name: o.Name}, nil)
	if err != nil {
		return Answer{Status: -1}, err
	}
	c.cmd.Args, c.cmd.Env = append([]string{o.Name}, o.Args...), o.Env
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("%w within %s", ErrNoAnswer, o.Limit))
	defer cancel()
	out, errs := bounded{most: mostStdout}, bounded{most: mostStderr}
	var readers sync.WaitGroup
	// The pipes end with the process, or when the process is left behind. Neither is an error.
	readers.Go(func() { _, _ = io.Copy(&out, c.tap) })
	readers.Go(func() { _, _ = io.Copy(&errs, c.stderr) })
	err = o.runChild(ctx, c)
	readers.Wait()
	c.close()
	a := Answer{Stdout: out.kept, Stderr: string(bytes.TrimSpace(errs.kept)), Status: -1}
	if _, ended := c.state(); ended != nil {
		if a.Status = ended.ExitCode(); a.Status < 0 && err == nil {
			err = fmt.Errorf("it was ended by %s", ended)
		}
	}
	return a, err
}

// runChild starts the child and waits until it has ended or is left behind.
func (o *Once) runChild(ctx context.Context, c *child) error {
	err := c.Start(ctx)
	if err == nil {
		select {
		case <-c.exited:
			return nil
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	kill := o.kill
	if kill == nil {
		kill = (*child).kill
	}
	kill(c)
	gone := time.NewTimer(Timing{Kill: o.Kill}.orDefault().Kill)
	defer gone.Stop()
	select {
	case <-c.exited:
		return err
	case <-gone.C:
	}
	// A deadline cannot be set only if the pipe is closed.
	now := time.Now()
	_ = c.tap.SetReadDeadline(now)
	_ = c.stderr.SetReadDeadline(now)
	pid, _ := c.state()
	if isRunnable(pid) {
		return fmt.Errorf("%w, and %w: process %d has had no CPU time to exit, and is left behind; see whether the host is overloaded",
			err, ErrAbandoned, pid)
	}
	return fmt.Errorf("%w, and %w: the kernel holds process %d, which is left behind", err, ErrAbandoned, pid)
}

// bounded keeps the first bytes that are written.
type bounded struct {
	kept []byte
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.most-len(b.kept))]...)
	return len(p), nil
}
