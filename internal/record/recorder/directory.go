package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrLocked is in the error of Run if another process writes to the directory.
	ErrLocked = errors.New("another process records in it")
	// ErrNotRecorder is in the error of NewReader for a directory that has neither segments nor a lock file.
	ErrNotRecorder = errors.New("not a recorder's directory")
)

const (
	lockName = "lock"
	suffix   = ".seg"
)

func segmentName(number uint64) string { return fmt.Sprintf("%010d%s", number, suffix) }

// segmentFile describes a segment in a directory.
type segmentFile struct {
	number uint64
	size   int64
	info   fs.FileInfo
}

// directory is the directory of a Recorder. It is locked from the first openOrReopen on.
type directory struct {
	path string
	root *os.Root
	lock *os.File
}

// openDirectory creates the directory if it is missing, and locks it.
func openDirectory(path string) (*directory, error) {
	d := &directory{path: path}
	if err := d.open(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *directory) open() error {
	err := os.Mkdir(d.path, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if d.root, err = os.OpenRoot(d.path); err != nil {
		return err
	}
	info, err := d.root.Stat(".")
	if err != nil {
		return err
	}
	if err := checkPermissions(info); err != nil {
		return err
	}
	// Open without write access, so that the directory can be locked even while its file system is read-only.
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600); err != nil {
		return err
	}
	err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: end that process, or give this one a directory of its own", ErrLocked)
	}
	return err
}

// checkPermissions returns an error if another user may write to the directory.
func checkPermissions(info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("its group or others may write to it (mode %04o): chmod go-w", info.Mode().Perm())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and this process runs as %d: chown it", st.Uid, os.Geteuid())
	}
	return nil
}

// openOrReopen opens the directory at the first call, and again if it was removed or replaced.
func (d *directory) openOrReopen() error {
	if d.root != nil {
		at, err := os.Stat(d.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if own, errOwn := d.root.Stat("."); err == nil && errOwn == nil && os.SameFile(own, at) {
			return nil
		}
	}
	next, err := openDirectory(d.path)
	if err != nil {
		return err
	}
	d.close()
	*d = *next
	return nil
}

// segments returns the segments, oldest first.
func (d *directory) segments() ([]segmentFile, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d.path, err)
	}
	return segmentsOf(entries), nil
}

// segmentsOf returns the segments among the entries of a directory, oldest first.
func segmentsOf(entries []fs.DirEntry) []segmentFile {
	var all []segmentFile
	for _, e := range entries {
		number, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), suffix), 10, 64)
		if err != nil || e.Name() != segmentName(number) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil { // otherwise the file was removed in the meantime
			all = append(all, segmentFile{number, info.Size(), info})
		}
	}
	slices.SortFunc(all, func(a, b segmentFile) int { return cmp.Compare(a.number, b.number) })
	return all
}

// sync makes the names of new segments durable.
func (d *directory) sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// close releases the lock.
func (d *directory) close() {
	if d.lock != nil {
		_ = d.lock.Close() // nothing was written to the file
	}
	if d.root != nil {
		_ = d.root.Close()
	}
}
