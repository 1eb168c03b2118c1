//go:build linux && cgo

// Command rdma-events-worker watches one RDMA device for rdma-events, which
// starts it. It is a program of its own because libibverbs and the vendors'
// libraries can hang or crash.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"rdma_events/internal/confine"
	"rdma_events/internal/hotplug"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sim"
	"rdma_events/internal/watch"
	"rdma_events/internal/worker"
)

// version is set by the linker.
var version = "dev"

// main keeps to the first thread, as worker.Serve wants it.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "-version" || os.Args[1] == "--version") {
		fmt.Println("rdma-events-worker", version)
		return
	}
	os.Exit(worker.Serve(worker.ServeConfig{Watch: watch.Run, Backend: backend, Needs: needs}))
}

// needs is for both backends: which one it will be is not known yet.
func needs() confine.Needs {
	read, devices := verbs.NativeFiles()
	return confine.Needs{Read: read, Devices: devices}
}

func backend(r worker.Request) (verbs.Backend, error) {
	switch r.Backend {
	case worker.BackendVerbs:
		return hotplug.Removable(verbs.Native(verbs.NewSysfs("/sys")), hotplug.Config{Warn: warn}), nil
	case worker.BackendSim:
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
	return nil, fmt.Errorf("it is not %q or %q", worker.BackendVerbs, worker.BackendSim)
}

func warn(err error) { fmt.Fprintln(os.Stderr, err) }

// die is a simulated crash: that of a library ends the process by a signal, and
// nothing goes on after it.
func die(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // to oneself it cannot fail
	select {}
}
