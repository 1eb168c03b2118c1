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
	// dirName is the name of the directory of the files.
	dirName = "rdma_events-status"
	suffix  = ".json"
	// tempMarker is part of the names of files that are being written.
	tempMarker = ".new"
	// systemDir is the directory in which a system service keeps its file.
	systemDir = "/run/" + dirName
)

// errNotRuntime is the error of MakeDir if the service's unit does not request the directory, as units of older
// versions.
var errNotRuntime = errors.New("the unit's RuntimeDirectory has no " + dirName)

// MakeDir returns the directory of the plugin's status file, and creates it if it is missing. For a service it is the
// directory that systemd made (RuntimeDirectory, systemd.exec(5)), otherwise /run/rdma_events-status or, if that is not
// usable, a directory in $XDG_RUNTIME_DIR. The error is one line.
func MakeDir() (string, error) {
	if dirs := os.Getenv("RUNTIME_DIRECTORY"); dirs != "" {
		for dir := range strings.SplitSeq(dirs, ":") {
			if filepath.Base(dir) == dirName {
				return makeWritableDir(dir)
			}
		}
		return "", errNotRuntime
	}
	dir, err := makeWritableDir(systemDir)
	if user := os.Getenv("XDG_RUNTIME_DIR"); err != nil && user != "" {
		return makeWritableDir(filepath.Join(user, dirName))
	}
	return dir, err
}

// Dirs returns the directories that may contain status files of this host's plugins, the most likely one first: the
// directory that systemd made for this service, the one of other services, and the one of this user. It creates none of
// them.
func Dirs() []string {
	var dirs []string
	for dir := range strings.SplitSeq(os.Getenv("RUNTIME_DIRECTORY"), ":") {
		if filepath.Base(dir) == dirName {
			dirs = append(dirs, dir)
		}
	}
	if dirs = append(dirs, systemDir); os.Getenv("XDG_RUNTIME_DIR") != "" {
		dirs = append(dirs, filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), dirName))
	}
	return slices.Compact(dirs)
}

// makeWritableDir creates a directory if it is missing, and returns it. It returns an error unless everybody can read
// the directory, this user can write to it, and neither its group nor others can.
func makeWritableDir(dir string) (string, error) {
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
		// systemd makes all directories of a service with the same mode, which is 0700 because of the sockets.
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

// Writer writes the status of this process to a file in its own goroutine.
type Writer struct {
	path    string
	process writingProcess
	log     *slog.Logger
	pending chan fileContent // without Process
}

// NewWriter returns a Writer for a file in a directory.
func NewWriter(dir string, log *slog.Logger) (*Writer, error) {
	own, err := identifyProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	// Containers that share the directory may have equal PIDs.
	file := fmt.Sprintf("%d-%d%s", own.Namespace, own.PID, suffix)
	return &Writer{path: filepath.Join(dir, file), process: own, log: log, pending: make(chan fileContent, 1)}, nil
}

// Put queues a status for writing, together with the history for the next plugin. The caller must not use either of them afterwards. Put
// does not block: if the previous status has not been written yet, Put replaces it. Put must not be called concurrently.
func (w *Writer) Put(s *health.Status, history []health.AlertHistory) {
	select {
	case <-w.pending:
	default:
	}
	w.pending <- fileContent{Status: *s, History: history}
}

// Run removes files that killed plugins have left in the directory, and then writes each status of Put until ctx is
// done. Then it removes the file, unless ReadHistory needs it. It logs the first of several consecutive errors.
func (w *Writer) Run(ctx context.Context) {
	dir := filepath.Dir(w.path)
	older, began := removeStaleFiles(dir, w.process.Namespace), time.Now()
	failing := false
	var last fileContent
	for {
		select {
		case <-ctx.Done():
			select {
			case last = <-w.pending:
			default:
			}
			w.leaveHistory(last, older)
			return
		case last = <-w.pending:
			err := w.writeFile(last)
			if err != nil && !failing {
				w.log.Warn("status file: write failed, `rdma-events status` and `health` are out of date", "error", err)
			}
			failing = err != nil
			if older && time.Since(began) > maxHistoryAge {
				older = removeStaleFiles(dir, w.process.Namespace)
			}
		}
	}
}

// leaveHistory writes the last status once more, for ReadHistory, if it has a history, or if the directory has an older history that it
// supersedes. Otherwise leaveHistory removes the file.
func (w *Writer) leaveHistory(last fileContent, older bool) {
	w.process.Ended = true
	if (len(last.History) > 0 || older && last.Schema != 0) && w.writeFile(last) == nil {
		return
	}
	_ = os.Remove(w.path) // a file that remains is stale, because its process has ended
}

func (w *Writer) writeFile(c fileContent) error {
	now, asleep := clock.Boot(), clock.Suspended()
	if w.process.WrittenNS != 0 {
		w.process.IntervalNS = int64(ageOf(&w.process))
	}
	w.process.WrittenNS, w.process.SuspendedNS = now, &asleep
	c.Process = w.process
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	// A new file, so that the write does not follow a symbolic link of another user.
	f, err := os.CreateTemp(filepath.Dir(w.path), filepath.Base(w.path)+tempMarker+"*")
	if err != nil {
		return w.wrapWriteError(err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), w.path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
		return w.wrapWriteError(err)
	}
	return nil
}

// wrapWriteError returns the error of a write without the name of the temporary file, which differs each time.
func (w *Writer) wrapWriteError(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("write status: %s: %w", w.path, err)
}

// removeStaleFiles removes the files of processes that have ended, including unfinished ones. It keeps those with a history that
// ReadHistory still uses, and reports whether there are any. It removes files of another PID namespace when they have been stale for an
// hour.
func removeStaleFiles(dir string, here uint64) (older bool) {
	entries, _ := os.ReadDir(dir) // the remaining files do no harm
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.Contains(e.Name(), tempMarker) {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = os.Remove(path) // another plugin may have been faster
			}
			continue
		}
		if filepath.Ext(e.Name()) != suffix {
			continue // a file of package release
		}
		r, err := readFile(path)
		if err != nil {
			continue // another user's, or one that is being removed
		}
		ended := r.Process.hasEnded(here)
		if ended && (len(r.History) > 0 || r.Process.Ended) && ageOf(&r.Process) <= maxHistoryAge {
			older = true
			continue
		}
		if ended || ageOf(&r.Process) > r.Process.maxAge()+time.Hour {
			_ = os.Remove(path)
		}
	}
	return older
}

// ageOf returns how long ago the status was written, without the time during which the host was suspended: the plugin
// could not write then.
func ageOf(w *writingProcess) time.Duration {
	age := clock.Boot() - w.WrittenNS
	if w.SuspendedNS != nil {
		age -= max(0, clock.Suspended()-*w.SuspendedNS)
	}
	return time.Duration(age)
}
