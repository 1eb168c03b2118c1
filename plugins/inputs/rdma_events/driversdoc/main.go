// Command driversdoc writes the parts of the documents about drivers, made from
// internal/device/drivers and the plugin's defaults. Its argument is the root of the repository.
// In each document it replaces the text between two comments.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"rdma_events/docs/document"
	"rdma_events/internal/agent"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/session"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: driversdoc DIRECTORY")
		os.Exit(2)
	}
	for _, p := range parts() {
		if err := document.Rewrite(filepath.Join(os.Args[1], p.file), p.name, p.text); err != nil {
			fmt.Fprintln(os.Stderr, "driversdoc:", err)
			os.Exit(1)
		}
	}
}

// part is a generated part of a document.
type part struct {
	file string // below the root
	name string // in the comments around it
	text string
}

func parts() []part {
	all := drivers.All()
	return []part{
		{"docs/reference/compatibility.md", "drivers", overview(all)},
		{"docs/reference/compatibility.md", "notes", notes(all)},
		{"docs/how-to/maintenance.md", "unloading", unloading(all)},
		{"docs/reference/device-commands.md", "commands", commands(all, pace())},
		{"docs/reference/device-commands.md", "snapshots", snapshots(all, pace())},
	}
}

// pace returns the pace of the plugin's defaults.
func pace() drivers.Pace {
	c := agent.DefaultConfig()
	return drivers.Pace{
		State: time.Duration(c.StateInterval), Probe: time.Duration(c.Probe.Interval), Command: time.Duration(c.Evidence.CommandInterval),
		Snapshot: time.Duration(c.Evidence.SnapshotInterval), Triggered: session.SnapshotsAMinute,
	}
}
