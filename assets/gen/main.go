// Command gen writes the dashboards, the alert rules and their documentation.
// Everything that it writes comes of the plugin's table of metrics: a name that
// the table lacks, or a unit that Grafana lacks, ends it with an error.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/plugins/inputs/rdma_events"
)

//go:generate go run . ../..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY, the root of the repository")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := generate(rdma_events.Metrics())
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", f.path, err)
		}
		if err := os.WriteFile(path, f.text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}

// file is one file to be written; path is relative to the repository's root.
type file struct {
	path string
	text []byte
}

func generate(metrics []rdma_events.Metric) ([]file, error) {
	names := newNames(metrics)
	fleet, err := fleetDashboard(names).Marshal()
	if err != nil {
		return nil, err
	}
	device, err := deviceDashboard(names).Marshal()
	if err != nil {
		return nil, err
	}
	rules, err := ruleFile(names)
	if err != nil {
		return nil, err
	}
	if err := names.err(); err != nil {
		return nil, err
	}
	return []file{
		{"assets/dashboards/fleet.json", fleet},
		{"assets/dashboards/device.json", device},
		{"assets/alerts/rdma_events.yaml", rules},
		{"docs/alerts.md", alertsDocument()},
	}, nil
}
