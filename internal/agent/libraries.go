package agent

import (
	"os"

	"rdma_events/internal/sys/filestate"
)

// newFileChangeDetector returns a function that reports whether a file has changed since the last call. The function
// must not be called concurrently.
func newFileChangeDetector(path string) func() bool {
	last, _ := os.Stat(path) // the file may be created later
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
