package worker

import (
	"slices"
	"strings"
)

// environment returns what of the host's environment a worker gets: what the
// loader and the verbs libraries read. Telegraf's holds secrets.
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
