// Package smallfile reads small files that other programs may have put there.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is wrapped by the error for a directory, a FIFO, a device or a socket.
var ErrNotRegular = errors.New("is no regular file")

// Read returns the first bytes of a regular file, at most so many. It follows no link and waits for no writer. Its errors name the
// file.
func Read(path string, most int64) ([]byte, error) {
	// A FIFO would make an ordinary open wait.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
