package emit

import (
	"maps"
	"time"
)

// forgettable is after how long without a point a series need not be remembered:
// what is known of it only orders points that are a second apart at most.
const forgettable = time.Hour

// seriesKept are remembered at any rate: those of some hundred devices.
const seriesKept = 4096

// forget drops what is over from a map that has grown to full, and returns when
// to look again. Only names that never come back can make it grow.
func forget[K comparable, V any](m map[K]V, full int, over func(V) bool) int {
	if len(m) <= max(full, seriesKept) {
		return full
	}
	maps.DeleteFunc(m, func(_ K, v V) bool { return over(v) })
	return 2 * len(m)
}
