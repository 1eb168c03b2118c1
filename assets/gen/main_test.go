package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/measure"
)

func TestCommittedFilesAreWhatTheTableOfMetricsGives(t *testing.T) {
	files, err := generate(influxdb.Own(), measure.All())
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, f := range files {
		got, err := os.ReadFile(filepath.Join("../..", f.path))
		require.NoError(t, err)
		require.Equal(t, string(f.text), string(got), "%s is old; run: go generate ./assets/gen", f.path)
	}
}

func TestANameThatTheTableLacksIsAnError(t *testing.T) {
	var fewer []measure.Metric
	for _, m := range measure.All() {
		if m.Name != "rdma_port" {
			fewer = append(fewer, m)
		}
	}
	_, err := generate(influxdb.Own(), fewer)
	require.ErrorContains(t, err, "the table of metrics has no rdma_port")
	require.ErrorContains(t, err, "rdma_port.rate_gbps")
}

func TestAUnitThatGrafanaLacksIsAnError(t *testing.T) {
	n := newNames([]measure.Metric{{Name: "m", Fields: []measure.Field{{Name: "f", Unit: "furlong"}}}})
	n.unit("m.f")
	require.ErrorContains(t, n.err(), `"furlong"`)
}

func TestEveryRuleHasAChapterThatSaysWhatToDo(t *testing.T) {
	text := string(alertsDocument())
	ids := map[string]bool{}
	for _, r := range rules() {
		require.False(t, ids[r.id], r.id)
		ids[r.id] = true
		require.Contains(t, text, "\n## "+r.id+"\n")
		require.NotEmpty(t, r.do, r.id)
		for _, part := range []string{r.title, r.summary, r.fires, r.quiet, r.clears, r.blind, r.promql} {
			require.NotEmpty(t, strings.TrimSpace(part), r.id)
		}
	}
}

func TestDurationsAreWrittenAsPrometheusDoes(t *testing.T) {
	require.Equal(t, "0s", short(0))
	require.Equal(t, "90s", short(90e9))
	require.Equal(t, "10m", short(600e9))
	require.Equal(t, "2h", short(7200e9))
}
