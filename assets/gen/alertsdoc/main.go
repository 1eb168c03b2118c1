// Command alertsdoc writes docs/reference/alerts.md.
package main

import (
	"fmt"
	"os"

	"rdma_events/assets/gen"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "alertsdoc: want one argument: the file to write")
		os.Exit(1)
	}
	if err := os.WriteFile(os.Args[1], gen.AlertsDocument(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "alertsdoc: write:", err)
		os.Exit(1)
	}
}
