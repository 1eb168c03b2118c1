// Command preview draws the dashboards into a directory. `make preview` builds
// the page first and starts it from the project's root.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"rdma_events/tests/preview"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: preview DIRECTORY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := preview.Draw(ctx, preview.Config{Root: ".", Out: os.Args[1]})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
}
