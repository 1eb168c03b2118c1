package agent

import (
	"os"

	"rdma_events/internal/sys/filestate"
)

// watchFile returns a function that reports whether a file has changed since its last call. Calls must not be concurrent.
func watchFile(path string) func() bool {
	last, _ := os.Stat(path) // a file that is missing may come
	return func() bool {
		now, err := os.Stat(path)
		if err != nil {
			return false
		}
		changed := last == nil || !filestate.Same(last, now)
		last = now
		return changed
	}
}
