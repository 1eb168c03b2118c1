package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Dir is the runtime directory of one host process. It contains the sockets of the host's
// children, has mode 0700, and is locked as long as the process runs. The lock is on the
// directory itself, which also keeps systemd-tmpfiles from removing it. All methods except
// Close may be called concurrently.
type Dir struct {
	base string // the argument of OpenDir

	mu sync.Mutex
	f  *os.File
}

// errNoDir is in the errors of Use.
var errNoDir = errors.New("child processes have no runtime directory")

const (
	dirPrefix = "rdma_events-"
	// socketSuffix is the maximum length of the path that go-plugin appends: two names, each with
	// a random 32-bit number.
	socketSuffix = len("/plugin-dir4294967295/plugin4294967295")
	// socketPathMax is sizeof(sockaddr_un.sun_path), the final NUL included.
	socketPathMax = 108
)

// OpenDir creates a runtime directory below base, and removes the runtime directories there
// whose process has ended. It refuses a base that is open to this user only by a capability. An
// empty base means the first usable directory of $RUNTIME_DIRECTORY, /run/rdma_events,
// $XDG_RUNTIME_DIR and the temporary directory. The caller closes the Dir after its supervisors
// have ended.
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

// makeBases returns the directories in which to create a runtime directory, the best one first. It creates /run/rdma_events if
// this user may, and otherwise omits it.
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
	groups, _ := os.Getgroups() // on an error, a directory of a supplementary group is refused
	if !isOpenTo(base, os.Geteuid(), append(groups, os.Getegid())) {
		return nil, fmt.Errorf("make runtime directory: %s is closed to user %d, except by capabilities, which children do not have", base, os.Geteuid())
	}
	removeDeadDirs(base)
	// Another process may remove the new directory before it is locked.
	const attempts = 10
	for range attempts {
		if f, err := makeDir(base); !errors.Is(err, errSwept) {
			return f, err
		}
	}
	return nil, fmt.Errorf("make runtime directory in %s: another process removes it at once", base)
}

// isOpenTo reports whether the mode of a directory lets a user create files in it. Root's capabilities let it do so everywhere, such
// as in the RuntimeDirectory of Telegraf's unit, but its children drop them when they confine themselves, and could then not execute
// their program there. A directory that cannot be examined is not refused: the attempt to use it has the better error.
func isOpenTo(dir string, uid int, groups []int) bool {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return true
	}
	const access = unix.S_IWOTH | unix.S_IXOTH
	switch {
	case int(st.Uid) == uid:
		return st.Mode>>6&access == access
	case slices.Contains(groups, int(st.Gid)):
		return st.Mode>>3&access == access
	}
	return st.Mode&access == access
}

var errSwept = errors.New("another process has removed it")

// makeDir creates and locks a directory. It returns errSwept if another process locked the
// directory first.
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

// lockDir opens and locks the directory at path. The error is os.ErrNotExist if the
// directory does not exist or was removed.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := flockDir(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flockDir(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	// The process that held the lock before may have removed the directory.
	_, err := os.Lstat(dir.Name())
	return err
}

// removeDeadDirs removes the directories in base that ended processes of this user left. It
// ignores errors, because a remaining directory does not prevent a start.
func removeDeadDirs(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !strings.HasPrefix(e.Name(), dirPrefix) || !isOwnDir(path) {
			continue
		}
		if f, err := lockDir(path); err == nil { // its process has ended
			_ = os.RemoveAll(path)
			_ = f.Close()
		}
	}
}

// isOwnDir reports whether path is a directory of this user with the mode of a runtime directory. It protects against files of
// other users in a shared temporary directory. The set-group-ID bit is allowed, because directories inherit it (inode(7)); a
// Kubernetes volume has it if the pod has an fsGroup.
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

// Use returns the directory's absolute path for another child. If the directory was removed,
// Use creates and locks a new one, as OpenDir did, and renewed is true. Running children do
// not need the removed directory.
func (d *Dir) Use() (path string, renewed bool, err error) {
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

// isAt reports whether path still names the open directory.
func isAt(dir *os.File, path string) bool {
	now, err := os.Lstat(path)
	if err != nil {
		return false
	}
	own, err := dir.Stat()
	return err == nil && os.SameFile(now, own)
}

// Close removes the directory with its contents and releases the lock. It does not remove a
// different directory that now has its path.
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
