package worker

import (
	"path/filepath"
	"slices"
	"strings"

	"rdma_events/internal/verbs"
)

// readKey is the environment variable that names a file that the worker's request will
// make it read. The worker needs the name at its start, before it gives up other files.
const readKey = "RDMA_EVENTS_READ"

// scenarioFile returns the environment of a worker that simulates a scenario from a file.
func scenarioFile(r verbs.Request) []string {
	if r.Backend != verbs.BackendSim || !filepath.IsAbs(r.Sim.Scenario) {
		return nil // the real hardware, or a scenario that is built in
	}
	return []string{readKey + "=" + r.Sim.Scenario}
}

// environment returns the variables of the host's environment that a worker gets: those
// that the loader and the verbs libraries read. Telegraf's environment contains secrets.
func environment(host []string) []string {
	exact := []string{"PATH", "LD_LIBRARY_PATH"}
	prefixes := []string{"RDMAV_", "IBV_", "MLX5_", "VERBS_"}
	var kept []string
	for _, kv := range host {
		key, _, _ := strings.Cut(kv, "=")
		hasPrefix := func(p string) bool { return strings.HasPrefix(key, p) }
		if slices.Contains(exact, key) || slices.ContainsFunc(prefixes, hasPrefix) {
			kept = append(kept, kv)
		}
	}
	return kept
}
