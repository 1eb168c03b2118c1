package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Write releases what the entry says, or has a device resumed although all are released, in place of what was said of it before.
// An entry for all devices replaces those of single devices that do not last longer. An error of a user who may not write to the directory wraps
// os.ErrPermission.
func Write(dir, boot string, e Entry) error {
	text, err := json.Marshal(content{schema, boot, e.Device, e.NodeGUID, e.PCI, e.Until})
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	// A new name, which is never a link that another user has put there.
	f, err := os.CreateTemp(dir, name+unfinished+"*")
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), giveTo(f, dir), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fileOf(e.Device)))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
		return fmt.Errorf("write release: %w", err)
	}
	if e.Device == "" {
		return remove(dir, func(path string) bool {
			one, ok, err := readFile(path, boot)
			return filepath.Base(path) != name && (err != nil || !ok || one.Until <= e.Until)
		})
	}
	return nil
}

// giveTo makes the owner of the directory the owner of a file that root has written, so that the owner sees its own file there.
func giveTo(f *os.File, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // in a container root may not; the file is read all the same
	}
	return nil
}

// Remove ends all releases in a directory. It is no error if there is none. An error of a user who may not write to the
// directory wraps os.ErrPermission.
func Remove(dir string) error { return remove(dir, func(string) bool { return true }) }

// Forget ends the release of one device. It is no error if there is none.
func Forget(dir, device string) error {
	return remove(dir, func(path string) bool { return filepath.Base(path) == fileOf(device) })
}

func remove(dir string, which func(path string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("end release: %w", err)
	}
	var failed error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !isRelease(e.Name()) || !which(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = joined(failed, fmt.Errorf("end release: %w", err))
		}
	}
	return failed
}
