//go:build linux && cgo

// Command rdma-events-worker watches one RDMA device for rdma-events, which
// starts it. It is a program of its own because libibverbs and the vendors'
// libraries can hang or crash.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"rdma_events/internal/confine"
	"rdma_events/internal/hotplug"
	"rdma_events/internal/session"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/native"
	"rdma_events/internal/verbs/sim"
	"rdma_events/internal/verbs/sysfs"
	"rdma_events/internal/worker"
)

const sysfsRoot = "/sys"

// version is set by the linker.
var version = "dev"

// main stays on the first thread, as worker.Serve requires.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "-version", "--version":
			fmt.Println("rdma-events-worker", version)
			return
		case "-library": // for rdma-events doctor
			os.Exit(library())
		}
	}
	os.Exit(worker.Serve(worker.ServeConfig{Watch: session.Run, Backend: backend, Needs: needs}))
}

// needs returns the needs of both backends, since it is not known yet which one the
// request names.
func needs() confine.Needs {
	read, devices := native.Files()
	if there, _ := sysfs.New(sysfsRoot).Devices(); len(there) > 0 && slices.ContainsFunc(devices, missing) {
		// A device node that does not exist yet could not be used when it appears. If
		// LoadNodes fails, the attempt to open the device reports the error.
		_ = hotplug.LoadNodes()
	}
	return confine.Needs{Read: read, Devices: devices}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

func library() int {
	path, err := native.Library()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(path)
	return 0
}

func backend(r verbs.Request) (verbs.Backend, error) {
	switch r.Backend {
	case verbs.BackendVerbs:
		return hotplug.Removable(native.New(sysfs.New(sysfsRoot)), hotplug.Config{Warn: warn}), nil
	case verbs.BackendSim:
		world, err := sim.Load(sim.Options{
			Profile:  r.Sim.Profile,
			Scenario: r.Sim.Scenario,
			Seed:     r.Sim.Seed,
			Epoch:    r.Sim.Epoch,
			Die:      die,
		})
		if err != nil {
			return nil, err
		}
		return sim.New(world), nil
	}
	return nil, fmt.Errorf("it is not %q or %q", verbs.BackendVerbs, verbs.BackendSim)
}

func warn(err error) { fmt.Fprintln(os.Stderr, err) }

// die simulates the crash of a library: a signal ends the process, and die never returns.
func die(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // a signal to the own process cannot fail
	select {}
}
