// Command stack runs InfluxDB, Telegraf and the plugin on simulated hosts until
// Ctrl-C. `make stack` builds and starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rdma_events/tests/stack"
)

func main() {
	programs := flag.String("programs", "build", "the directory of the programs")
	addr := flag.String("addr", "", "address of InfluxDB, as in 127.0.0.1:8086 (default a free port)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := stack.Run(ctx, stack.Config{Programs: *programs, Addr: *addr, Out: os.Stdout, Now: time.Now})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}
