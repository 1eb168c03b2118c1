package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Write writes the entry, in place of an earlier one for the same device. An entry for all devices also removes entries
// for single devices that do not last longer. If the user may not write to the directory, the error wraps
// os.ErrPermission.
func Write(dir, boot string, e Entry) error {
	text, err := json.Marshal(fileContent{schema, boot, e.Device, e.NodeGUID, e.PCI, e.Until})
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	// A new file, so that the write does not follow a symbolic link of another user.
	f, err := os.CreateTemp(dir, fileName+tempMarker+"*")
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), chownToDirOwner(f, dir), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fileNameFor(e.Device)))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
		return fmt.Errorf("write release: %w", err)
	}
	if e.Device == "" {
		return removeFiles(dir, func(path string) bool {
			one, ok, err := readFile(path, boot)
			return filepath.Base(path) != fileName && (err != nil || !ok || one.Until <= e.Until)
		})
	}
	return nil
}

// chownToDirOwner gives a file that root has written to the owner of the directory, so that the plugin's user owns its
// releases.
func chownToDirOwner(f *os.File, dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // root may lack this right in a container; the plugin can read the file nevertheless
	}
	return nil
}

// Remove removes all releases in a directory. It is no error if there is none. If the user may not write to the
// directory, the error wraps os.ErrPermission.
func Remove(dir string) error { return removeFiles(dir, func(string) bool { return true }) }

// RemoveDevice removes the release of one device. It is no error if there is none.
func RemoveDevice(dir, device string) error {
	return removeFiles(dir, func(path string) bool { return filepath.Base(path) == fileNameFor(device) })
}

// removeFiles removes the releases in a directory for whose path which returns true.
func removeFiles(dir string, which func(path string) bool) error {
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
			failed = joinErrors(failed, fmt.Errorf("end release: %w", err))
		}
	}
	return failed
}
