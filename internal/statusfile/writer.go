package statusfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/clock"
	"rdma_events/internal/health"
)

const (
	// name is that of the directory of the files.
	name   = "rdma_events-status"
	suffix = ".json"
	// system is the directory where a service of the system keeps its files.
	system = "/run/" + name
)

// errNotRuntime is the error of Dir for a service whose unit was not made for this version.
var errNotRuntime = errors.New("the unit's RuntimeDirectory has no " + name)

// Dir returns the directory of a plugin's file and makes it if it is missing: the one that systemd made
// (RuntimeDirectory, systemd.exec(5)) for a service, else /run/rdma_events-status, else one in $XDG_RUNTIME_DIR. The
// error is one line.
func Dir() (string, error) {
	if dirs := os.Getenv("RUNTIME_DIRECTORY"); dirs != "" {
		for dir := range strings.SplitSeq(dirs, ":") {
			if filepath.Base(dir) == name {
				return usable(dir)
			}
		}
		return "", errNotRuntime
	}
	dir, err := usable(system)
	if user := os.Getenv("XDG_RUNTIME_DIR"); err != nil && user != "" {
		return usable(filepath.Join(user, name))
	}
	return dir, err
}

// usable makes a directory, if it is missing, in which everybody can read and this user can write, and returns it.
func usable(dir string) (string, error) {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if info, failed := os.Stat(dir); failed == nil && info.Mode().Perm()&0o555 != 0o555 {
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

// NewWriter returns a Writer for a file in a directory, from which it removes what plugins left that were killed.
func NewWriter(dir string, log *slog.Logger) (*Writer, error) {
	own, err := identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	sweep(dir, own.Namespace)
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

// Run writes each status of Put, until ctx is done, and removes the file then. It logs an error that differs from the
// one before.
func (w *Writer) Run(ctx context.Context) {
	defer func() { _ = os.Remove(w.path) }() // one that stays is known as stale by its process
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-w.next:
			said = w.report(s, said)
		}
	}
}

// report writes a status, and returns the error, as text. It logs one that is not the one before.
func (w *Writer) report(s *health.Status, before string) string {
	err := w.write(s)
	if err == nil {
		return ""
	}
	if err.Error() != before {
		w.log.Warn(err.Error() + "; `rdma-events status` and `health` miss it, and all else goes on")
	}
	return err.Error()
}

func (w *Writer) write(s *health.Status) error {
	now := clock.Boot()
	if w.own.Written != 0 {
		w.own.Interval = now - w.own.Written
	}
	w.own.Written = now
	text, err := json.Marshal(report{*s, w.own})
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	half := w.path + ".new"
	if err = os.WriteFile(half, append(text, '\n'), 0o644); err == nil {
		err = os.Chmod(half, 0o644) // whatever the umask is
	}
	if err == nil {
		err = os.Rename(half, w.path)
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// sweep removes the files of processes that have ended. Those of another PID namespace go when they are an hour stale.
func sweep(dir string, here uint64) {
	all, _ := filepath.Glob(filepath.Join(dir, "*"+suffix)) // the error is that of the pattern
	for _, path := range all {
		r, err := readFile(path)
		if err != nil {
			continue // another user's, or one that is being removed
		}
		if r.Process.gone(here) || age(&r.Process) > r.Process.limit()+time.Hour {
			_ = os.Remove(path) // another plugin may have been faster
		}
	}
}

func age(w *writer) time.Duration { return time.Duration(clock.Boot() - w.Written) }
