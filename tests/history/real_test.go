package history_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/history"
	"rdma_events/tests/rig"
)

// seriesFields returns each series with its fields and their types. A field is included if at least one point has it.
func seriesFields(points []rig.Point) []string {
	all := map[string]bool{}
	for _, p := range points {
		for name, value := range p.Fields {
			all[fmt.Sprintf("%s %s %T", p.Series(), name, value)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// A history is useful only if it has the same series and fields as the real
// programs under real Telegraf, no more and no less.
func TestAHistoryHasTheSeriesAndFieldsOfTheRealThing(t *testing.T) {
	// The drop is between two rounds, however long the start takes: a round during the drop makes another series.
	scenario := `
[[link]]
at = "2700ms"
device = "sim0"
down_for = "40ms"
`
	points := hostPoints(t, time.Minute, history.Host{Timeline: scenario})
	want := seriesFields(points)
	r := rig.Start(t, rig.Config{Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.recorder]
    directory = %q
  [inputs.rdma_events.sim]
    scenario = %q
`, filepath.Join(t.TempDir(), "records"), writeScenario(t, scenario))})
	var got []string
	t.Cleanup(func() {
		if t.Failed() {
			assert.Equal(t, want, got)
		}
	})
	r.Await("the same series", 30*time.Second, func(points []rig.Point) bool {
		got = seriesFields(points)
		return slices.Equal(got, want)
	})
	require.NotEmpty(t, want)
}
