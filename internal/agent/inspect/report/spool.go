package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Spool is Data on the disk that keeps the newest of what is written. Its files have no names, so
// that nothing is left of it, however the process ends. One goroutine uses it.
type Spool struct {
	dir         string
	older, last half
}

// half is one of the two files of a Spool.
type half struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

// NewSpool returns an empty Spool with its files in dir. The caller closes it.
func NewSpool(dir string) (*Spool, error) {
	s := &Spool{dir: dir}
	var err error
	s.last, err = newHalf(dir)
	return s, err
}

func newHalf(dir string) (half, error) {
	f, err := os.CreateTemp(dir, ".rdma-events-report-*")
	if err != nil {
		return half{}, fmt.Errorf("make temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return half{}, errors.Join(fmt.Errorf("unlink temporary file: %w", err), f.Close())
	}
	return half{f: f, w: bufio.NewWriter(f)}, nil
}

// Write implements io.Writer.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.last.w.Write(p)
	s.last.size += int64(n)
	return n, err
}

// Size returns how much was written since the last Turn.
func (s *Spool) Size() int64 { return s.last.size }

// Turn drops what was written before the last Turn. What was written since stays, until the next
// one.
func (s *Spool) Turn() error {
	if err := s.last.w.Flush(); err != nil {
		return err
	}
	if s.older.f != nil {
		if err := s.older.f.Close(); err != nil {
			return err
		}
	}
	s.older = s.last
	var err error
	s.last, err = newHalf(s.dir)
	return err
}

// Len implements Data.
func (s *Spool) Len() int64 { return s.older.size + s.last.size }

// WriteTo implements Data. It may be called several times.
func (s *Spool) WriteTo(w io.Writer) (written int64, err error) {
	for _, h := range []half{s.older, s.last} {
		if h.f == nil {
			continue
		}
		if err := h.w.Flush(); err != nil {
			return written, err
		}
		n, err := io.Copy(w, io.NewSectionReader(h.f, 0, h.size))
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close gives the space back.
func (s *Spool) Close() error {
	var errs []error
	for _, h := range []half{s.older, s.last} {
		if h.f != nil {
			errs = append(errs, h.f.Close())
		}
	}
	return errors.Join(errs...)
}
