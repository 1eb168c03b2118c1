package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/agent/inspect/report"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/sysfs"
)

// partArgument is the first argument of `report` in a process that prints one part for another `report`. It is not
// meant for users.
const partArgument = "part"

// hostQuery is the query for the part "host".
type hostQuery struct {
	Devices  []string
	Programs report.Programs
}

// printPart prints a part as JSON. args are its name and its query, which is JSON.
func printPart(args []string, stdout, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "rdma-events report part: it is not to be started by hand")
		return exitUsage
	}
	value, err := makePart(args[0], []byte(args[1]))
	if err == nil {
		err = json.NewEncoder(stdout).Encode(value)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

// makePart returns the value of a part.
func makePart(name string, query []byte) (any, error) {
	switch name {
	case "host":
		var q hostQuery
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, fmt.Errorf("read query: %w", err)
		}
		return report.ReadHost(os.DirFS("/"), q.complete(time.Now())), nil
	case "resources":
		var devices []string
		if err := json.Unmarshal(query, &devices); err != nil {
			return nil, fmt.Errorf("read query: %w", err)
		}
		return report.ReadResources(time.Now(), devices, nldev.QueryResources), nil
	}
	return nil, fmt.Errorf("there is no part %q", name)
}

// complete returns the complete query about the host.
func (q *hostQuery) complete(now time.Time) report.HostQuery {
	h := report.HostQuery{
		Time: now, Name: hostName(), Kernel: inspect.RunningKernel(), Programs: q.Programs, Packages: inspect.ListPackages(context.Background()),
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
