//go:build linux && cgo

// Command rdma-events-worker watches one RDMA device. rdma-events starts one
// for each device. It is a separate program because libibverbs and the vendors'
// libraries can hang or crash.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/fabric/endpoint"
	"rdma_events/internal/sys/build"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/status"
)

// version is set by the linker.
var version string

// init keeps main on the first thread, as worker.Serve requires.
func init() { runtime.LockOSThread() }

func main() {
	if code, ok := answerFlag(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(worker.Serve(worker.ServeConfig{Watch: watchDevice, Backend: openBackend, Needs: func() confine.Needs {
		loadMissingNodes()
		return libraryNeeds()
	}}))
}

// watchDevice runs the session of a device with all its parts.
func watchDevice(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options, orders *verbs.FabricOrders,
	send func(verbs.Batch) error,
) (status.End, error) {
	if o.Fabric.Paths > 0 {
		// A worker runs Go code in one thread at a time, or in two with peers, whose echoes would otherwise wait.
		runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	}
	return session.Run(ctx, b, led, o, send, session.Objects, endpoint.New(orders))
}

// answerFlag answers a question on the command line. ok is false if there is none.
func answerFlag(args []string) (code int, ok bool) {
	switch {
	case len(args) == 1 && (args[0] == "-version" || args[0] == "--version"):
		fmt.Println("rdma-events-worker", build.Version(version))
		return 0, true
	case len(args) == 1 && args[0] == "-library": // for rdma-events doctor
		return printLibrary(), true
	case len(args) == 2 && args[0] == "-link": // for rdma-events doctor
		return printLink(args[1]), true
	case len(args) == 2 && args[0] == "-evidence": // for rdma-events report
		return printSnapshot(args[1], ""), true
	case len(args) == 3 && args[0] == "-evidence":
		return printSnapshot(args[1], args[2]), true
	}
	return 0, false
}

// printLibrary prints the path of libibverbs, and returns the exit status.
func printLibrary() int {
	path, err := native.LoadLibrary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(path)
	return 0
}
