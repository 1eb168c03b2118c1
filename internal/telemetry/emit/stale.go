package emit

import (
	"maps"
	"time"
)

// staleAfter is the time without a point after which the state of a series may be deleted.
// The state only serves to order points that are at most a second apart.
const staleAfter = time.Hour

// keptSeries is the number of series whose state is kept regardless of age. It suffices
// for some hundred devices.
const keptSeries = 4096

// deleteStale deletes the stale entries of a map that has more than cleanupAt entries and
// more than keptSeries. It returns the size at which to check the map again. Without it,
// the map would grow with each name that never comes back, such as the name of a removed device.
func deleteStale[K comparable, V any](m map[K]V, cleanupAt int, stale func(V) bool) int {
	if len(m) <= max(cleanupAt, keptSeries) {
		return cleanupAt
	}
	maps.DeleteFunc(m, func(_ K, v V) bool { return stale(v) })
	return 2 * len(m)
}
