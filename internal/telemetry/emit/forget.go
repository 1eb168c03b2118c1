package emit

import (
	"maps"
	"time"
)

// forgettable is the time without a point after which the state of a series may be
// dropped. The state only orders points that are at most a second apart.
const forgettable = time.Hour

// seriesKept is how many series are kept in any case: those of some hundred devices.
const seriesKept = 4096

// forget deletes the entries that are over from a map with more than full entries, and
// more than seriesKept. It returns the size above which to check the map again. Only
// names that never come back can make the map grow.
func forget[K comparable, V any](m map[K]V, full int, over func(V) bool) int {
	if len(m) <= max(full, seriesKept) {
		return full
	}
	maps.DeleteFunc(m, func(_ K, v V) bool { return over(v) })
	return 2 * len(m)
}
