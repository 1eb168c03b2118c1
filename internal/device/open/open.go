//go:build linux && cgo

// Package open has a row for each value of the option backend, as the worker uses it. Package backends has the rows of
// the host.
package open

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/sys/confine"
)

const sysfsRoot = "/sys"

// Row is one backend.
type Row struct {
	Name string // the value of the option
	// Needs returns the part of the file system that the backend's libraries use. It is
	// called before the request is known.
	Needs func() confine.Needs
	// Open makes the backend for a request. It may call into native libraries.
	Open func(verbs.Request) (verbs.Backend, error)
}

// All returns the rows.
func All() []Row {
	return []Row{
		{verbs.BackendVerbs, needsOfVerbs, openVerbs},
		{verbs.BackendSim, func() confine.Needs { return confine.Needs{} }, openSim},
	}
}

// Needs returns the needs of all backends together.
func Needs() confine.Needs {
	var all confine.Needs
	for _, row := range All() {
		n := row.Needs()
		all.Read, all.Devices = append(all.Read, n.Read...), append(all.Devices, n.Devices...)
	}
	return all
}

// Backend makes the backend that a request names.
func Backend(r verbs.Request) (verbs.Backend, error) {
	var names []string
	for _, row := range All() {
		if row.Name == r.Backend {
			return row.Open(r)
		}
		names = append(names, fmt.Sprintf("%q", row.Name))
	}
	return nil, fmt.Errorf("it is not %s", strings.Join(names, " or "))
}

func needsOfVerbs() confine.Needs {
	read, devices := native.Files()
	if there, _ := sysfs.New(sysfsRoot).Devices(); len(there) > 0 && slices.ContainsFunc(devices, missing) {
		// A node that is missing now could not be used when it comes. If loading fails, the
		// attempt to open the device reports the reason.
		_ = hotplug.LoadNodes()
	}
	return confine.Needs{Read: read, Devices: devices}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func openVerbs(verbs.Request) (verbs.Backend, error) {
	warn := func(err error) { fmt.Fprintln(os.Stderr, err) }
	return hotplug.Removable(native.New(sysfs.New(sysfsRoot)), hotplug.Config{Warn: warn}), nil
}

func openSim(r verbs.Request) (verbs.Backend, error) {
	world, err := devices.Load(devices.Options{
		Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch, Die: die,
	})
	if err != nil {
		return nil, err
	}
	return devices.New(world), nil
}

// die simulates a crash: the crash of a library ends the process by a signal, and no
// code runs after it.
func die(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // a signal to the own process cannot fail
	select {}
}
