package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Spool is Data on disk that keeps the newest part of what is written to it. Its files have no names, so that nothing
// remains of it however the process ends. It must be used by one goroutine only.
type Spool struct {
	dir         string
	older, last spoolFile
}

// spoolFile is one of the two files of a Spool.
type spoolFile struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

// NewSpool returns an empty Spool with its files in dir. The caller must close it.
func NewSpool(dir string) (*Spool, error) {
	s := &Spool{dir: dir}
	var err error
	s.last, err = newSpoolFile(dir)
	return s, err
}

func newSpoolFile(dir string) (spoolFile, error) {
	f, err := os.CreateTemp(dir, ".rdma-events-report-*")
	if err != nil {
		return spoolFile{}, fmt.Errorf("make temporary file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return spoolFile{}, errors.Join(fmt.Errorf("unlink temporary file: %w", err), f.Close())
	}
	return spoolFile{f: f, w: bufio.NewWriter(f)}, nil
}

// Write implements io.Writer.
func (s *Spool) Write(p []byte) (int, error) {
	n, err := s.last.w.Write(p)
	s.last.size += int64(n)
	return n, err
}

// Size returns the number of bytes that were written since the last Rotate.
func (s *Spool) Size() int64 { return s.last.size }

// Rotate drops the data that was written before the previous Rotate. The data written since then remains until the next
// one.
func (s *Spool) Rotate() error {
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
	s.last, err = newSpoolFile(s.dir)
	return err
}

// Len implements Data.
func (s *Spool) Len() int64 { return s.older.size + s.last.size }

// WriteTo implements Data. It may be called several times.
func (s *Spool) WriteTo(w io.Writer) (written int64, err error) {
	for _, h := range []spoolFile{s.older, s.last} {
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

// Close frees the disk space.
func (s *Spool) Close() error {
	var errs []error
	for _, h := range []spoolFile{s.older, s.last} {
		if h.f != nil {
			errs = append(errs, h.f.Close())
		}
	}
	return errors.Join(errs...)
}
