package alerts_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// The subject becomes a tag of rdma_problem. With values of a field, such as the number of a queue pair, each problem would begin a series.
func TestSubjectsAreMadeOfTagsAlone(t *testing.T) {
	subjects := 0
	for _, a := range alerts.Table() {
		for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(a.Of, -1) {
			i := slices.IndexFunc(measure.All(), func(m measure.Metric) bool { return m.Name == a.Measurement })
			require.GreaterOrEqual(t, i, 0, a.ID)
			require.True(t, slices.ContainsFunc(measure.All()[i].Tags, func(t measure.Tag) bool { return t.Name == name[1] }), "%s: {%s}", a.ID, name[1])
			subjects++
		}
	}
	require.Positive(t, subjects)
}
