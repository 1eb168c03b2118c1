package main

import (
	"fmt"
	"os"

	"rdma_events/internal/agent"
)

// loadConfig reads a configuration file and expands the environment variables in it. For an empty path it returns the
// defaults.
func loadConfig(path string) (agent.Config, error) {
	if path == "" {
		return agent.DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return agent.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := agent.Parse(agent.Expand(string(text), os.LookupEnv))
	if err != nil {
		return agent.Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// workerPath returns the path of the worker program: the configured one, or the one beside this program.
func workerPath(c *agent.Config) (string, error) {
	if c.WorkerPath != "" {
		return c.WorkerPath, nil
	}
	return agent.WorkerPath()
}
