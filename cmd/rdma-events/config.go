package main

import (
	"fmt"
	"os"
	"strings"

	"rdma_events/plugins/inputs/rdma_events"
)

// loadConfig reads a configuration file as Telegraf's shim does: variables of
// the environment are expanded in the whole text. An empty path stands for the
// defaults.
func loadConfig(path string) (rdma_events.Config, error) {
	if path == "" {
		return rdma_events.DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return rdma_events.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := rdma_events.Parse(os.Expand(string(text), quoted))
	if err != nil {
		return rdma_events.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// quoted returns a variable of the environment fit for a TOML string, escaped
// exactly as the shim does it.
func quoted(name string) string {
	return strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(os.Getenv(name))
}
