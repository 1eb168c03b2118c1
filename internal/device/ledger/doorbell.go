package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Doorbell is an eventfd(2) by which a worker wakes the host when a ring has an urgent entry. Ring and Wait may be called
// concurrently.
type Doorbell struct {
	file *os.File
	fd   int
}

// NewDoorbell creates a doorbell. Its file is close-on-exec. The caller closes it.
func NewDoorbell() (*Doorbell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create doorbell: %w", err)
	}
	return &Doorbell{file: os.NewFile(uintptr(fd), "doorbell"), fd: fd}, nil
}

// OpenDoorbell returns the doorbell that another process created and passed as f. The Doorbell owns f from then on.
func OpenDoorbell(f *os.File) *Doorbell { return &Doorbell{file: f, fd: int(f.Fd())} }

// Share returns another file of the doorbell, to be passed to a child process. The caller closes it.
func (d *Doorbell) Share() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("share doorbell: %w", err)
	}
	return os.NewFile(uintptr(fd), "doorbell"), nil
}

// FD returns the descriptor for a writer in C. It is valid until Close.
func (d *Doorbell) FD() int { return d.fd }

// Ring makes the current call of Wait return, or the next one.
func (d *Doorbell) Ring() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	// The write fails only if the counter is full, and then Wait returns too.
	_, _ = unix.Write(d.fd, one)
}

// Wait blocks until the doorbell has been rung since the last call. It returns os.ErrDeadlineExceeded after Wake, and
// os.ErrClosed after Close.
func (d *Doorbell) Wait() error {
	var count [8]byte
	if _, err := d.file.Read(count[:]); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			return err
		}
		return fmt.Errorf("wait for doorbell: %w", err)
	}
	return nil
}

// Wake makes all current and later calls of Wait return.
func (d *Doorbell) Wake() { _ = d.file.SetReadDeadline(time.Unix(1, 0)) }

// Close closes the doorbell.
func (d *Doorbell) Close() error {
	if err := d.file.Close(); err != nil {
		return fmt.Errorf("close doorbell: %w", err)
	}
	return nil
}

// SetDoorbell sets the doorbell that the writers of l ring. It must be called before the first writer starts.
func (l *Ledger) SetDoorbell(d *Doorbell) { l.bell = d }

// Ring rings the doorbell, if there is one.
func (l *Ledger) Ring() {
	if l.bell != nil {
		l.bell.Ring()
	}
}

// DoorbellFD returns the descriptor of the doorbell for a writer in C; -1 if there is none.
func (l *Ledger) DoorbellFD() int {
	if l.bell == nil {
		return -1
	}
	return l.bell.FD()
}
