package worker

import (
	"os"
	"slices"
	"strings"
)

// readKey is the environment variable that names the files that the worker's request will
// make it read, separated as in PATH. The worker needs the names at its start, before it
// gives up other files.
const readKey = "RDMA_EVENTS_READ"

// readable returns the environment of a worker that reads files.
func readable(files []string) []string {
	if len(files) == 0 {
		return nil
	}
	return []string{readKey + "=" + strings.Join(files, string(os.PathListSeparator))}
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
