//go:build linux && cgo

package main

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

// backend is a value of the option "backend" and the worker's part of it. Package agent has the host's part.
type backend struct {
	name string
	open func(verbs.Request) (verbs.Backend, error) // may call into native libraries
}

func backends() []backend {
	return []backend{{verbs.BackendVerbs, openVerbs}, {verbs.BackendSim, openSim}}
}

// openBackend creates the backend that a request names.
func openBackend(r verbs.Request) (verbs.Backend, error) {
	var names []string
	for _, b := range backends() {
		if b.name == r.Backend {
			return b.open(r)
		}
		names = append(names, fmt.Sprintf("%q", b.name))
	}
	return nil, fmt.Errorf("it is not %s", strings.Join(names, " or "))
}

// libraryNeeds returns the parts of the file system that the backends' libraries use. The simulator needs none.
func libraryNeeds() confine.Needs {
	read, devices := native.Files()
	return confine.Needs{Read: read, Devices: devices}
}

// loadMissingNodes loads the kernel modules that create the character devices of verbs, if the host has RDMA devices. It must
// run before the process is confined: a node that is created later could not be used. It ignores errors, since opening the
// device then reports the reason.
func loadMissingNodes() {
	_, nodes := native.Files()
	if there, _ := sysfs.New(sysfsRoot).Devices(); len(there) > 0 && slices.ContainsFunc(nodes, isMissing) {
		_ = hotplug.LoadNodes()
	}
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func openVerbs(verbs.Request) (verbs.Backend, error) {
	warn := func(err error) { fmt.Fprintln(os.Stderr, err) }
	return hotplug.Removable(native.New(sysfs.New(sysfsRoot)), hotplug.Config{Warn: warn}), nil
}

func openSim(r verbs.Request) (verbs.Backend, error) {
	world, err := devices.Load(devices.Options{
		Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch, Die: simulateCrash,
	})
	if err != nil {
		return nil, err
	}
	return devices.New(world), nil
}

// simulateCrash simulates the crash of a library: a signal ends the process, and no code runs after it.
func simulateCrash(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // a signal to the own process cannot fail
	select {}
}
