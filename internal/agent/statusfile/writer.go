package statusfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/clock"
)

const (
	// name is that of the directory of the files.
	name   = "rdma_events-status"
	suffix = ".json"
	// unfinished is in the names of files that are being written.
	unfinished = ".new"
	// system is the directory where a service of the system keeps its files.
	system = "/run/" + name
)

// errNotRuntime is the error of MakeDir for a service whose unit was not made for this version.
var errNotRuntime = errors.New("the unit's RuntimeDirectory has no " + name)

// MakeDir makes the directory of a plugin's file, if it is missing, and returns it: the one that systemd made
// (RuntimeDirectory, systemd.exec(5)) for a service, else /run/rdma_events-status, else one in $XDG_RUNTIME_DIR. The
// error is one line.
func MakeDir() (string, error) {
	if dirs := os.Getenv("RUNTIME_DIRECTORY"); dirs != "" {
		for dir := range strings.SplitSeq(dirs, ":") {
			if filepath.Base(dir) == name {
				return makeUsable(dir)
			}
		}
		return "", errNotRuntime
	}
	dir, err := makeUsable(system)
	if user := os.Getenv("XDG_RUNTIME_DIR"); err != nil && user != "" {
		return makeUsable(filepath.Join(user, name))
	}
	return dir, err
}

// Dirs returns the directories in which there may be the files of this host's plugins, the likeliest first, and makes none: the
// one that systemd made for this service, those of other services, and that of this user.
func Dirs() []string {
	var dirs []string
	for dir := range strings.SplitSeq(os.Getenv("RUNTIME_DIRECTORY"), ":") {
		if filepath.Base(dir) == name {
			dirs = append(dirs, dir)
		}
	}
	if dirs = append(dirs, system); os.Getenv("XDG_RUNTIME_DIR") != "" {
		dirs = append(dirs, filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), name))
	}
	return slices.Compact(dirs)
}

// makeUsable makes a directory, if it is missing, in which everybody can read and this user can write, and returns it.
func makeUsable(dir string) (string, error) {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case err != nil:
	case info.Mode().Perm()&0o022 != 0:
		err = fmt.Errorf("its group or others may write to it (mode %04o)", info.Mode().Perm())
	case info.Mode().Perm()&0o555 != 0o555:
		// systemd makes all directories of a service with one mode, and that of the sockets is 0700.
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK)
	}
	if err != nil {
		return "", fmt.Errorf("make %s for the status: %w", dir, err)
	}
	return dir, nil
}

// Writer writes the status of this process to a file.
type Writer struct {
	path string
	own  writer
	log  *slog.Logger
	next chan *health.Status
}

// NewWriter returns a Writer for a file in a directory.
func NewWriter(dir string, log *slog.Logger) (*Writer, error) {
	own, err := identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	// Containers that share the directory may have equal PIDs.
	file := fmt.Sprintf("%d-%d%s", own.Namespace, own.PID, suffix)
	return &Writer{path: filepath.Join(dir, file), own: own, log: log, next: make(chan *health.Status, 1)}, nil
}

// Put hands over a status, which the Writer owns from then on. It does not block: a status that is not written yet is
// replaced. One goroutine at a time may call it.
func (w *Writer) Put(s *health.Status) {
	select {
	case <-w.next:
	default:
	}
	w.next <- s
}

// Run removes what killed plugins left in the directory, and writes each status of Put, until ctx is done. Then it removes
// the file. It logs the first of several errors in a row.
func (w *Writer) Run(ctx context.Context) {
	defer func() { _ = os.Remove(w.path) }() // one that stays is known as stale by its process
	sweep(filepath.Dir(w.path), w.own.Namespace)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-w.next:
			err := w.write(s)
			if err != nil && !failing {
				w.log.Warn(err.Error() + "; `rdma-events status` and `health` miss it, and all else goes on")
			}
			failing = err != nil
		}
	}
}

func (w *Writer) write(s *health.Status) error {
	now, asleep := clock.Boot(), slept()
	if w.own.Written != 0 {
		w.own.Interval = int64(age(&w.own))
	}
	w.own.Written, w.own.Slept = now, &asleep
	text, err := json.Marshal(report{*s, w.own})
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	// A new name, which is never a link that another user has put there.
	f, err := os.CreateTemp(filepath.Dir(w.path), filepath.Base(w.path)+unfinished+"*")
	if err != nil {
		return w.failed(err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), w.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
		return w.failed(err)
	}
	return nil
}

// failed returns the error of a write without the name of the new file, which differs each time.
func (w *Writer) failed(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("write status: %s: %w", w.path, err)
}

// sweep removes the files of processes that have ended, and what they had not finished. Files of another PID namespace
// go when they are an hour stale.
func sweep(dir string, here uint64) {
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be swept, and costs nothing
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.Contains(e.Name(), unfinished) {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = os.Remove(path) // another plugin may have been faster
			}
			continue
		}
		if filepath.Ext(e.Name()) != suffix {
			continue // a release
		}
		r, err := readFile(path)
		if err != nil {
			continue // another user's, or one that is being removed
		}
		if r.Process.gone(here) || age(&r.Process) > r.Process.limit()+time.Hour {
			_ = os.Remove(path)
		}
	}
}

// age returns how long ago the report was written. A time during which the host was suspended does not count: the plugin could
// not report either.
func age(w *writer) time.Duration {
	age := clock.Boot() - w.Written
	if w.Slept != nil {
		age -= max(0, slept()-*w.Slept)
	}
	return time.Duration(age)
}

// slept returns how long the host has been suspended since its boot, in ns.
func slept() int64 {
	mono := clock.Monotonic()
	return clock.Boot() - mono
}
