package execd

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Input reads from a descriptor, and can be interrupted while it waits. One
// goroutine at a time may call Read, any goroutine Interrupt. Close must be called
// after all other calls have returned.
type Input struct {
	*waiter
}

// NewInput returns an Input on fd. It does not change fd, and Close leaves fd open.
func NewInput(fd int) (*Input, error) {
	w, err := newWaiter(fd)
	if err != nil {
		return nil, err
	}
	return &Input{waiter: w}, nil
}

// Read blocks until there is data to read. It returns io.EOF when the other side
// has closed its end, and ErrInterrupted after Interrupt.
func (i *Input) Read(p []byte) (int, error) {
	for {
		if err := i.wait(unix.POLLIN); err != nil {
			return 0, err
		}
		n, err := unix.Read(i.fd, p)
		switch {
		case err != nil && mustRetry(err):
			continue
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Interrupt makes the current Read and all later ones return ErrInterrupted. It
// does not block.
func (i *Input) Interrupt() { i.interrupt() }

// Close frees the resources of the Input. The descriptor stays open.
func (i *Input) Close() error { return i.close() }
