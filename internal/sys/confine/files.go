package confine

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

const (
	execute = ll.AccessFSExecute | ll.AccessFSReadFile
	list    = ll.AccessFSReadFile | ll.AccessFSReadDir
	control = list | ll.AccessFSWriteFile | ll.AccessFSIoctlDev
	// sockets includes files, because go-plugin first creates one with the name of the
	// socket.
	sockets = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSMakeReg |
		ll.AccessFSMakeSock | ll.AccessFSRemoveFile
)

// restrictFiles restricts the process to the files in n, as far as the Landlock of the kernel
// supports it.
func restrictFiles(n Needs) error {
	program, err := programFiles()
	if err != nil {
		return err
	}
	dirs, files := splitByType(n.Read)
	devices, _ := splitByType(n.Devices)
	return landlock.V11.BestEffort().Restrict(
		landlock.PathAccess(execute, append(program, self)...).IgnoreIfMissing(),
		landlock.PathAccess(list, dirs...),
		landlock.PathAccess(ll.AccessFSReadFile, files...),
		landlock.PathAccess(control, devices...),
		landlock.PathAccess(sockets, optionalPath(n.Sockets)...),
	)
}

// splitByType separates directories from other files, and omits paths on which stat(2) fails.
func splitByType(paths []string) (dirs, files []string) {
	for _, path := range paths {
		switch info, err := os.Stat(path); {
		case err != nil:
		case info.IsDir():
			dirs = append(dirs, path)
		default:
			files = append(files, path)
		}
	}
	return dirs, files
}

// optionalPath returns dir as a list, which is empty if dir is "".
func optionalPath(dir string) []string {
	if dir == "" {
		return nil
	}
	return []string{dir}
}

// programFiles returns the files from which the code of the process was loaded. The kernel
// executes the program and its loader again, and the loader loads the other files.
func programFiles() ([]string, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("find the program's files: %w", err)
	}
	defer f.Close()
	var files []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// proc(5): address, permissions, offset, device, inode, path.
		perms, _, _ := strings.Cut(afterSpace(lines.Text()), " ")
		_, path, found := strings.Cut(lines.Text(), "/")
		if found && strings.Contains(perms, "x") {
			files = append(files, "/"+path)
		}
	}
	return files, nil
}

func afterSpace(s string) string {
	_, rest, _ := strings.Cut(s, " ")
	return rest
}
