//go:build linux

// Command rdma-events-tracer collects asynchronous events and hangs of all processes on the host that use RDMA. rdma-events starts it and receives the
// data. It is a separate program because it starts with privileges that neither rdma-events nor its workers have. It needs no cgo.
package main

import (
	"fmt"
	"os"
	"runtime"

	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/sys/build"
)

// version is set by the linker.
var version string

// init keeps main on the first thread, as tracer.Serve requires.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "-version", "--version":
			fmt.Println(tracer.ProgramName, build.Version(version))
			return
		case "-try", "--try":
			if err := tryAttach(os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(tracer.Serve(tracer.ServeConfig{Prepare: attachPrograms, Open: openSource}))
}
