// Command driversdoc generates the parts of the documents about drivers from internal/device/drivers and the plugin's
// defaults. Its argument is the root of the repository. In each document it replaces the text between two comments.
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
	for _, p := range generatedParts() {
		if err := document.Rewrite(filepath.Join(os.Args[1], p.file), p.name, p.text); err != nil {
			fmt.Fprintln(os.Stderr, "driversdoc:", err)
			os.Exit(1)
		}
	}
}

// part is a generated part of a document.
type part struct {
	file string // relative to the root
	name string // used in the comments around it
	text string
}

func generatedParts() []part {
	all := drivers.All()
	return []part{
		{"docs/reference/compatibility.md", "drivers", overviewTable(all)},
		{"docs/reference/compatibility.md", "notes", driverNotes(all)},
		{"docs/how-to/maintenance.md", "unloading", unloadTable(all)},
		{"docs/reference/device-commands.md", "commands", commandTable(all, defaultPace())},
		{"docs/reference/device-commands.md", "snapshots", snapshotTable(all, defaultPace())},
	}
}

// defaultPace returns the pace of commands with the plugin's default options.
func defaultPace() drivers.Pace {
	c := agent.DefaultConfig()
	return drivers.Pace{
		State: time.Duration(c.StateInterval), Probe: time.Duration(c.Probe.Interval), Command: time.Duration(c.Evidence.CommandInterval),
		Snapshot: time.Duration(c.Evidence.SnapshotInterval), Triggered: session.SnapshotsAMinute,
	}
}
