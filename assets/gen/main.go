// Command gen writes the dashboards, the alert rules and their documentation. It
// takes all metrics from the plugin's table of metrics. A name that the table
// lacks, or a unit that Grafana lacks, is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/measure"
)

//go:generate go run . ../..

func main() {
	flags := flag.NewFlagSet("gen", flag.ExitOnError)
	database := flags.String("database", "", "a database that others write to as well, as telegraf (default an own one, rdma)")
	_ = flags.Parse(os.Args[1:]) // exits on an error
	err := errors.New("want one argument: the directory to write to, as the root of the repository")
	if flags.NArg() == 1 {
		err = run(*database, flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(database, root string) error {
	place, err := influxdb.Chosen(database)
	if err != nil {
		return fmt.Errorf("read -database: %w", err)
	}
	files, err := generate(place, measure.All())
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

// file is a file to be written. path is relative to the root directory.
type file struct {
	path string
	text []byte
}

func generate(place influxdb.Place, metrics []measure.Metric) ([]file, error) {
	names := newNames(metrics)
	fleet, err := fleetDashboard(names, place).Marshal()
	if err != nil {
		return nil, err
	}
	device, err := deviceDashboard(names, place).Marshal()
	if err != nil {
		return nil, err
	}
	rules, err := ruleFile(names, place)
	if err != nil {
		return nil, err
	}
	inProm, err := promRules()
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
		{"assets/prometheus/rules.yml", inProm},
		{"docs/alerts.md", alertsDocument()},
	}, nil
}
