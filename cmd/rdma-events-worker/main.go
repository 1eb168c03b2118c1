//go:build linux && cgo

// Command rdma-events-worker watches one RDMA device for rdma-events, which
// starts it. It is a program of its own because libibverbs and the vendors'
// libraries can hang or crash.
package main

import (
	"fmt"
	"os"
	"runtime"

	"rdma_events/internal/backends/open"
	"rdma_events/internal/session"
	"rdma_events/internal/verbs/native"
	"rdma_events/internal/worker"
)

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
	os.Exit(worker.Serve(worker.ServeConfig{Watch: session.Run, Backend: open.Backend, Needs: open.Needs}))
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
