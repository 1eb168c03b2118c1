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

// ErrNoAnswer is wrapped by the error of Once.Run for a program that has not ended in time
// and was killed. The kernel may hold a process so that a kill has no effect: that one is left
// behind, and the error wraps ErrAbandoned.
var ErrNoAnswer = errors.New("no answer")

// Once is a program that is run for one answer. Whatever it does, Run returns in time.
type Once struct {
	Exe   *os.File      // the program, from OpenExe; the caller closes it after Run
	Name  string        // its argument 0, which ps(1) shows
	Args  []string      // the others
	Env   []string      // its whole environment, "key=value"
	Limit time.Duration // for the whole answer; a program that takes longer is killed
	Kill  time.Duration // for a killed process to be gone; 0: as in DefaultTiming

	kill func(*child) // nil: (*child).kill; only tests have another
}

// Answer is what a program printed until it ended, or was killed or left behind.
type Answer struct {
	Stdout []byte
	Stderr string // without surrounding white space
	Status int    // the exit status; -1 if it has none
}

// The limits of an answer. What comes after them is read and dropped.
const (
	mostStdout = 16 << 20
	mostStderr = stderrTail
)

// Run runs the program and waits for its end, for its limit, or for the end of ctx. An exit
// status other than 0 is no error. A process that ends by a signal is one, and so are
// ErrNoAnswer, ErrAbandoned and the error of ctx; with each of them the Answer has what was
// printed until then. Run may be called several times, and concurrently.
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
	// The pipes end with the process, or when they are given up; neither is an error.
	readers.Go(func() { _, _ = io.Copy(&out, c.tap) })
	readers.Go(func() { _, _ = io.Copy(&errs, c.stderr) })
	err = o.follow(ctx, c)
	readers.Wait()
	c.close()
	a := Answer{Stdout: out.kept, Stderr: string(bytes.TrimSpace(errs.kept)), Status: -1}
	if _, ended := c.state(); ended != nil {
		if a.Status = ended.ExitCode(); a.Status < 0 && err == nil {
			err = fmt.Errorf("it ended by %s", ended)
		}
	}
	return a, err
}

// follow starts the child and waits until it is gone, or is left behind.
func (o *Once) follow(ctx context.Context, c *child) error {
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
	// If the deadline cannot be set, the pipes are of no use and are closed.
	now := time.Now()
	_ = c.tap.SetReadDeadline(now)
	_ = c.stderr.SetReadDeadline(now)
	pid, _ := c.state()
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
