package inspect

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kernel describes a running kernel (uname(2)).
type Kernel struct {
	Release string `json:"release"`
	Version string `json:"version"`
	Machine string `json:"machine"`
}

// RunningKernel returns the kernel of this host.
func RunningKernel() Kernel {
	var u unix.Utsname
	_ = unix.Uname(&u) // cannot fail
	return Kernel{
		Release: unix.ByteSliceToString(u.Release[:]), Version: unix.ByteSliceToString(u.Version[:]),
		Machine: unix.ByteSliceToString(u.Machine[:]),
	}
}

// ListPackages returns the names and versions of the installed packages of RDMA libraries and drivers, as in
// "libibverbs1 44.0-2". It returns none if no package manager answers.
func ListPackages(ctx context.Context) []string {
	names := []string{"rdma-core", "libibverbs*", "ibverbs-providers", "librdmacm*", "mlnx-ofed*", "mlnx-ofa*", "doca-ofed*"}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var found []string
	for _, command := range [][]string{
		{"dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n"},
		{"rpm", "-qa", "--queryformat", "installed %{NAME} %{VERSION}-%{RELEASE}\n"},
	} {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], names...)...)
		cmd.Stdout = &out
		_ = cmd.Run() // it also fails if it does not know one of the names
		for line := range strings.Lines(out.String()) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "installed "); ok {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// FindProgram returns the program name and the process ID of a process or thread. The name is "" if the process has
// ended or is hidden.
func FindProgram(pid int) (name string, process int) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(line) == 0 {
		return "", 0
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	process = pid
	if status, err := os.ReadFile(filepath.Join(dir, "status")); err == nil {
		if _, rest, ok := strings.Cut(string(status), "Tgid:"); ok {
			if _, err := fmt.Sscan(rest, &process); err != nil {
				process = pid
			}
		}
	}
	return filepath.Base(string(first)), process
}
