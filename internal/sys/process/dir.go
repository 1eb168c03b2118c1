package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Dir is the runtime directory of one host process. It contains the sockets of the host's
// children, has mode 0700, and is locked as long as the process runs. The lock is on the
// directory itself, so that systemd-tmpfiles does not remove it either. All methods but
// Close may be called concurrently.
type Dir struct {
	base string // the argument of OpenDir

	mu sync.Mutex
	f  *os.File
}

// errNoDir is wrapped by the errors of Use.
var errNoDir = errors.New("child processes have no runtime directory")

const (
	dirPrefix = "rdma_events-"
	// socketSuffix is the length of the path that go-plugin appends: two names with a
	// random 32-bit number.
	socketSuffix = len("/plugin-dir4294967295/plugin4294967295")
	// socketPathMax is sizeof(sockaddr_un.sun_path), the final NUL included.
	socketPathMax = 108
)

// OpenDir makes a runtime directory below base, and removes the runtime directories there
// whose process is gone. An empty base means the first usable directory of
// $RUNTIME_DIRECTORY, /run/rdma_events, $XDG_RUNTIME_DIR and the temporary directory. The
// caller closes the Dir after its supervisors have ended.
func OpenDir(base string) (*Dir, error) {
	f, err := openDir(base)
	if err != nil {
		return nil, err
	}
	return &Dir{base: base, f: f}, nil
}

func openDir(base string) (*os.File, error) {
	if base != "" {
		return openDirIn(base)
	}
	return openDirInOneOf(makeBases())
}

func openDirInOneOf(bases []string) (*os.File, error) {
	var failed error
	for _, b := range bases {
		f, err := openDirIn(b)
		if err == nil {
			return f, nil
		}
		if failed == nil {
			failed = err
			continue
		}
		failed = fmt.Errorf("%w; %w", failed, err) // one line, unlike errors.Join
	}
	return nil, failed
}

// makeBases returns the directories that may have a runtime directory, the best first. It makes /run/rdma_events if this user may, and
// leaves that out otherwise.
func makeBases() []string {
	var all []string
	// systemd separates several directories with colons.
	if own, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); own != "" {
		all = append(all, own)
	}
	if err := os.Mkdir("/run/rdma_events", 0o700); err == nil || errors.Is(err, os.ErrExist) {
		all = append(all, "/run/rdma_events")
	}
	if user := os.Getenv("XDG_RUNTIME_DIR"); user != "" {
		all = append(all, user)
	}
	return append(all, os.TempDir())
}

func openDirIn(base string) (*os.File, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("make runtime directory: %w", err)
	}
	if n := len(base) + len("/"+dirPrefix+"4294967295") + socketSuffix; n >= socketPathMax {
		return nil, fmt.Errorf("make runtime directory: the path %s is %d bytes too long for sockets in it",
			base, n-socketPathMax+1)
	}
	sweep(base)
	// Another process may remove the directory before it is locked.
	const attempts = 10
	for range attempts {
		if f, err := makeDir(base); !errors.Is(err, errSwept) {
			return f, err
		}
	}
	return nil, fmt.Errorf("make runtime directory in %s: it is removed as soon as it is made", base)
}

var errSwept = errors.New("another process removes it")

// makeDir makes and locks a directory. It fails with errSwept when another process locked
// it first.
func makeDir(base string) (*os.File, error) {
	path, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make runtime directory: %w", err)
	}
	f, err := lockDir(path)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errSwept
	}
	return nil, errors.Join(fmt.Errorf("lock runtime directory: %w", err), os.Remove(path))
}

// lockDir opens and locks the directory at path. The error is os.ErrNotExist if there is
// no such directory, or no longer.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lock(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	// The process that had the lock before may have removed the directory.
	_, err := os.Lstat(dir.Name())
	return err
}

// sweep removes the directories in base that this user's dead processes left. It reports
// no error, since a directory that stays does not prevent a start.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), dirPrefix) || !isOwnDir(path) {
			continue
		}
		if f, err := lockDir(path); err == nil { // its process is gone
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
}

// isOwnDir protects against the files of other users in a shared temporary directory. A directory that was made in one with the
// set-group-ID bit has this bit too (inode(7)): a volume of Kubernetes has it where the pod has an fsGroup.
func isOwnDir(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&^unix.S_ISGID == unix.S_IFDIR|0o700 && int(st.Uid) == os.Geteuid()
}

// Path returns the directory's absolute path.
func (d *Dir) Path() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.f.Name()
}

// Use returns the directory's absolute path for another child. If an administrator or a
// cleaner has removed the directory, Use makes and locks another one, as OpenDir did, and
// again is true. Children that run already do not need their directory.
func (d *Dir) Use() (path string, again bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isAt(d.f, d.f.Name()) {
		return d.f.Name(), false, nil
	}
	f, err := openDir(d.base)
	if err != nil {
		return "", false, fmt.Errorf("%w: %s was removed: %w", errNoDir, d.f.Name(), err)
	}
	_ = d.f.Close() // nothing was written
	d.f = f
	return f.Name(), true, nil
}

// isAt reports whether path names the open directory, and not another one or none.
func isAt(dir *os.File, path string) bool {
	now, err := os.Lstat(path)
	if err != nil {
		return false
	}
	own, err := dir.Stat()
	return err == nil && os.SameFile(now, own)
}

// Close removes the directory with its contents and releases the lock. It does not remove
// another directory that is now at its path.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isAt(d.f, d.f.Name()) {
		return d.f.Close()
	}
	err := os.RemoveAll(d.f.Name())
	if err != nil {
		err = fmt.Errorf("remove runtime directory: %w", err)
	}
	return errors.Join(err, d.f.Close())
}
