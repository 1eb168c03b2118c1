// Package smallfile reads small files that other programs may have put there.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is in the error of Read for a directory, a FIFO, a device or a socket.
var ErrNotRegular = errors.New("is no regular file")

// Read returns at most the first maxBytes of a regular file. It does not follow a symbolic link and does not block on a FIFO.
// Its errors name the file.
func Read(path string, maxBytes int64) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO would block otherwise.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return io.ReadAll(io.LimitReader(f, maxBytes))
}
