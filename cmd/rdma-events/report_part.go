package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/drivers"
	"rdma_events/internal/inspect"
	"rdma_events/internal/inspect/report"
	"rdma_events/internal/nldev"
	"rdma_events/internal/verbs/sysfs"
)

// partArgument is the first argument of `report` in a process that prints one part for another
// `report`. It is no command for people.
const partArgument = "part"

// hostPart is the query of the part host.
type hostPart struct {
	Devices  []string
	Programs report.Programs
}

// printPart prints a part as JSON. args are its name and its query, which is JSON.
func printPart(args []string, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "rdma-events report part: it is not to be started by hand")
		return exitUsage
	}
	value, err := partOf(args[0], []byte(args[1]))
	if err == nil {
		err = json.NewEncoder(stdout).Encode(value)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

func partOf(name string, query []byte) (any, error) {
	switch name {
	case "host":
		var q hostPart
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, fmt.Errorf("read query: %w", err)
		}
		return report.ReadHost(os.DirFS("/"), q.query(time.Now())), nil
	case "resources":
		var devices []string
		if err := json.Unmarshal(query, &devices); err != nil {
			return nil, fmt.Errorf("read query: %w", err)
		}
		return report.ReadResources(time.Now(), devices, nldev.Resources), nil
	}
	return nil, fmt.Errorf("there is no part %q", name)
}

// query completes what is asked about the host.
func (q *hostPart) query(now time.Time) report.HostQuery {
	h := report.HostQuery{
		Time: now, Name: hostName(), Kernel: runningKernel(), Programs: q.Programs, Packages: packages(),
		Modules: []string{"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm"},
	}
	fs, root := sysfs.New("/sys"), inspect.Files{FS: os.DirFS("/")}
	h.Programs.Verbs = root.Libraries(q.Programs.Library, "").Verbs
	for _, name := range q.Devices {
		d := report.DeviceQuery{Name: name, Driver: fs.Device(name).Driver}
		d.PCI, _ = fs.CardOf(name)
		d.Provider = root.Libraries(q.Programs.Library, d.Driver).Provider
		h.Devices = append(h.Devices, d)
		h.Modules = append(h.Modules, drivers.Companion(d.Driver))
	}
	return h
}

func runningKernel() report.Kern {
	var u unix.Utsname
	_ = unix.Uname(&u) // cannot fail
	return report.Kern{
		Release: unix.ByteSliceToString(u.Release[:]), Version: unix.ByteSliceToString(u.Version[:]),
		Machine: unix.ByteSliceToString(u.Machine[:]),
	}
}

// packages returns the installed packages of the RDMA libraries and drivers, as "libibverbs1 44.0-2";
// none where the system's packages cannot be asked.
func packages() []string {
	names := []string{"rdma-core", "libibverbs*", "ibverbs-providers", "librdmacm*", "mlnx-ofed*", "mlnx-ofa*", "doca-ofed*"}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
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
