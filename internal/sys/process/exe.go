package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/status"
)

// OpenExe opens the program of the children. Every start executes the opened file, even
// if path later names another file, so that an upgrade never mixes versions. The error
// wraps status.ErrUntrusted if users other than root and the user of this process can
// write to the file. The caller closes the file after its supervisors have ended.
func OpenExe(path string) (*os.File, error) {
	// O_PATH needs no permission to read.
	f, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open program: %w", err)
	}
	if err := checkExe(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open program %s: %w", path, err), f.Close())
	}
	return f, nil
}

// checkExe checks that the file is an executable that no other user can change.
func checkExe(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("not a file")
	case st.Mode&0o111 == 0:
		return errors.New("not executable")
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%w: its group or others may write to it (mode %04o)", status.ErrUntrusted, st.Mode&0o7777)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to user %d", status.ErrUntrusted, st.Uid)
	}
	return nil
}
