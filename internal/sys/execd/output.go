package execd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBuf is PIPE_BUF: if poll reports a pipe as writable, a write of this size
// does not block and is atomic (pipe(7)).
const pipeBuf = 4096

// Output writes to a descriptor whose reader may stall. Write blocks until the
// reader has read enough; Interrupt ends the wait. Any goroutine may call its methods.
// Close must be called after all other calls have returned.
type Output struct {
	*waiter

	mu sync.Mutex // one Write at a time: the space that poll reports is enough for one
}

// NewOutput returns an Output on fd. It does not change fd, and Close leaves fd
// open.
func NewOutput(fd int) (*Output, error) {
	w, err := newWaiter(fd)
	if err != nil {
		return nil, err
	}
	return &Output{waiter: w}, nil
}

// Write writes all of p, and blocks while the reader does not read. Pieces of up
// to 4096 bytes are written whole or not at all. It returns ErrInterrupted after
// Interrupt, and EPIPE if no reader is left.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := 0
	for done < len(p) {
		if err := o.wait(unix.POLLOUT); err != nil {
			return done, err
		}
		n, err := unix.Write(o.fd, p[done:min(len(p), done+pipeBuf)])
		if err != nil && !mustRetry(err) {
			return done, fmt.Errorf("write: %w", err)
		}
		done += max(n, 0)
	}
	return done, nil
}

// Interrupt makes the current Write and all later ones return ErrInterrupted. It
// does not block.
func (o *Output) Interrupt() { o.interrupt() }

// Drain waits until the reader has read everything that was written, has closed
// its end, or ctx is done. It reports whether the reader has read everything.
// Telegraf closes its end as soon as the process exits, and loses the data that
// is in the pipe then.
func (o *Output) Drain(ctx context.Context) bool {
	const pace = time.Millisecond
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		// An error means that this is no pipe or socket, so there is no reader to wait for.
		n, err := unix.IoctlGetInt(o.fd, unix.TIOCINQ)
		if err != nil || n == 0 {
			return true
		}
		if o.abandoned() {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// abandoned reports whether no reader is left (POLLERR in poll(2)).
func (o *Output) abandoned() bool {
	fds := []unix.PollFd{{Fd: int32(o.fd)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// Close frees the resources of the Output. The descriptor stays open.
func (o *Output) Close() error { return o.close() }
