package execd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrInterrupted is the error of a Read or Write that Interrupt ended, and of all
// later ones.
var ErrInterrupted = errors.New("interrupted")

// waiter waits until a descriptor is ready. It uses poll instead of making the
// descriptor non-blocking, because that flag belongs to the open file, which other
// processes may share (a terminal, an inherited pipe).
type waiter struct {
	fd   int
	wake int // an eventfd that becomes and stays readable after interrupt

	once sync.Once
}

func newWaiter(fd int) (*waiter, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	return &waiter{fd: fd, wake: wake}, nil
}

// wait blocks until one of events or an error condition holds for the descriptor.
// After interrupt it returns ErrInterrupted, even if the descriptor is ready as
// well.
func (w *waiter) wait(events int16) error {
	fds := []unix.PollFd{
		{Fd: int32(w.fd), Events: events},
		{Fd: int32(w.wake), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("poll: %w", err)
		case fds[1].Revents != 0:
			return ErrInterrupted
		case fds[0].Revents&unix.POLLNVAL != 0:
			return unix.EBADF
		}
		return nil
	}
}

// interrupt ends the current wait and all later ones. It does not block. It may be called
// concurrently and repeatedly.
func (w *waiter) interrupt() {
	w.once.Do(func() {
		one := binary.NativeEndian.AppendUint64(nil, 1)
		// The counter is 0, so this can neither block nor fail.
		_, _ = unix.Write(w.wake, one)
	})
}

func (w *waiter) close() error { return unix.Close(w.wake) }

// mustRetry reports whether a system call has to be repeated after waiting. EAGAIN comes
// from descriptors that another process made non-blocking.
func mustRetry(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)
}
