package main

import (
	"fmt"
	"os"

	"rdma_events/plugins/inputs/rdma_events"
)

// loadConfig reads a configuration file and expands environment variables in it.
// An empty path means the defaults.
func loadConfig(path string) (rdma_events.Config, error) {
	if path == "" {
		return rdma_events.DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return rdma_events.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := rdma_events.Parse(rdma_events.Expand(string(text), os.LookupEnv))
	if err != nil {
		return rdma_events.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
