//go:build linux && cgo

// Command rdma-events-worker watches one RDMA device for rdma-events, which
// starts it. It is a program of its own because libibverbs and the vendors'
// libraries can hang or crash.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"rdma_events/internal/hotplug"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sim"
	"rdma_events/internal/watch"
	"rdma_events/internal/worker"
)

// version is set by the linker.
var version = "dev"

func main() {
	if len(os.Args) == 2 && (os.Args[1] == "-version" || os.Args[1] == "--version") {
		fmt.Println("rdma-events-worker", version)
		return
	}
	os.Exit(worker.Serve(worker.ServeConfig{Watch: watch.Run, Backend: backend}))
}

func backend(r worker.Request) (verbs.Backend, error) {
	switch r.Backend {
	case worker.BackendVerbs:
		sysfs := verbs.NewSysfs("/sys")
		return native{verbs.Native(sysfs), sysfs}, nil
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

// native is the backend of real devices that also sees their removal coming.
type native struct {
	verbs.Backend
	sysfs verbs.Sysfs
}

// WaitRemoved implements watch.RemovalWatcher.
func (n native) WaitRemoved(ctx context.Context, device string) error {
	node, err := n.sysfs.Node(device)
	if errors.Is(err, verbs.ErrNoDevice) {
		return nil // it was open a moment ago
	}
	if err == nil {
		err = hotplug.WatchRemoval(ctx, hotplug.Config{Warn: warn}, node)
	}
	if err != nil && ctx.Err() == nil {
		// Watching the device is worth more than letting go of it in time.
		warn(err)
		<-ctx.Done()
	}
	return err
}

func warn(err error) { fmt.Fprintln(os.Stderr, err) }

// die is a simulated crash: that of a library ends the process by a signal.
func die(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s) // to oneself it cannot fail
}
