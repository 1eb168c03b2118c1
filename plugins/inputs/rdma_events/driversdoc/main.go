// Command driversdoc writes what the documents say of drivers, made from
// internal/drivers and the plugin's defaults. Its argument is the root of the
// repository. In each document it replaces what stands between two comments.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rdma_events/internal/drivers"
	"rdma_events/plugins/inputs/rdma_events"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: driversdoc DIRECTORY")
		os.Exit(2)
	}
	for _, p := range parts() {
		if err := p.write(os.Args[1]); err != nil {
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
		{"README.md", "drivers", overview(all, "docs/")},
		{"docs/compatibility.md", "drivers", overview(all, "")},
		{"docs/compatibility.md", "notes", notes(all)},
		{"docs/operations.md", "commands", commands(all, pace())},
	}
}

// pace is that of the plugin's defaults.
func pace() drivers.Pace {
	c := rdma_events.DefaultConfig()
	return drivers.Pace{State: time.Duration(c.StateInterval), Probe: time.Duration(c.Probe.Interval)}
}

func (p part) write(root string) error {
	path := filepath.Join(root, p.file)
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	text, err := p.in(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// in returns a document with the part as it is to be.
func (p part) in(document string) (string, error) {
	begin := fmt.Sprintf("<!-- Begin of %s: made by go generate ./plugins/inputs/rdma_events; do not edit. -->\n", p.name)
	end := fmt.Sprintf("<!-- End of %s. -->\n", p.name)
	before, rest, opened := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		return "", fmt.Errorf("find the generated part: want the lines %q and %q", begin, end)
	}
	return before + begin + p.text + end + after, nil
}
