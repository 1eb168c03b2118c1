package execd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBuf is PIPE_BUF: a pipe that polls writable takes this much without
// blocking, and as one piece (pipe(7)).
const pipeBuf = 4096

// Output writes to a descriptor whose reader may stall. Write blocks until the
// reader has made room; Interrupt ends that. Any goroutine may call its
// methods; Close comes after the last of them.
type Output struct {
	*waiter

	mu sync.Mutex // one Write at a time: the room that poll promises is for one
}

// NewOutput returns an Output on fd, which stays open and as it is.
func NewOutput(fd int) (*Output, error) {
	w, err := newWaiter(fd)
	if err != nil {
		return nil, err
	}
	return &Output{waiter: w}, nil
}

// Write writes all of p, blocking while the reader does not read. Pieces of up
// to 4096 bytes are written whole or not at all. It returns ErrInterrupted
// after Interrupt, and EPIPE when nobody can read any more.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := 0
	for done < len(p) {
		if err := o.wait(unix.POLLOUT); err != nil {
			return done, err
		}
		n, err := unix.Write(o.fd, p[done:min(len(p), done+pipeBuf)])
		if err != nil && !again(err) {
			return done, fmt.Errorf("write: %w", err)
		}
		done += max(n, 0)
	}
	return done, nil
}

// Interrupt makes the Write that is under way and all later ones return
// ErrInterrupted. It does not block.
func (o *Output) Interrupt() { o.interrupt() }

// Drain waits until the reader has taken everything that was written, has closed
// its end, or ctx is done, and reports whether it has taken it. Telegraf closes its end as soon as the
// process exits, and what is in the pipe then is lost.
func (o *Output) Drain(ctx context.Context) bool {
	const pace = time.Millisecond
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		// Not a pipe or socket: there is nobody to wait for.
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

// abandoned reports whether nobody can read any more (POLLERR in poll(2)).
func (o *Output) abandoned() bool {
	fds := []unix.PollFd{{Fd: int32(o.fd)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// Close frees what NewOutput made. The descriptor stays open.
func (o *Output) Close() error { return o.close() }
