package grafana

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
)

func TestTransformationsDoWhatGrafanasDo(t *testing.T) {
	table := func() Frame {
		return Table([]influx.Series{
			{Name: "m", Tags: map[string]string{"host": "b"}, Columns: []string{"time", "n"}, Values: [][]any{{1, 7.0}}},
			{Name: "m", Tags: map[string]string{"host": "a"}, Columns: []string{"time", "n"}, Values: [][]any{{3, 5.0}, {2, 7.0}}},
		})
	}
	option := func(id string, options map[string]any) grafana.Transform {
		return grafana.Transform{ID: id, Options: options}
	}
	sorted := func(field string, desc bool) grafana.Transform {
		return option("sortBy", map[string]any{"sort": []map[string]any{{"field": field, "desc": desc}}})
	}
	for name, tt := range map[string]struct {
		all  []grafana.Transform
		want Frame
	}{
		"none": {nil, Frame{[]string{"Time", "host", "n"}, [][]any{{1, "b", 7.0}, {3, "a", 5.0}, {2, "a", 7.0}}}},
		"organize": {
			[]grafana.Transform{option("organize", map[string]any{
				"excludeByName": map[string]any{"Time": true, "host": false}, "indexByName": map[string]any{"n": 0, "host": 1},
				"renameByName": map[string]any{"n": "count"},
			})},
			Frame{[]string{"count", "host"}, [][]any{{7.0, "b"}, {5.0, "a"}, {7.0, "a"}}},
		},
		"sortBy, limit": {
			[]grafana.Transform{sorted("Time", true), option("limit", map[string]any{"limitField": 2})},
			Frame{[]string{"Time", "host", "n"}, [][]any{{3, "a", 5.0}, {2, "a", 7.0}}},
		},
		"groupBy": {
			[]grafana.Transform{option("groupBy", map[string]any{"fields": map[string]any{
				"host": map[string]any{"operation": "groupby", "aggregations": []string{}},
				"n":    map[string]any{"operation": "aggregate", "aggregations": []string{"count"}},
			}}), sorted("n (count)", false)},
			Frame{[]string{"host", "n (count)"}, [][]any{{"b", 1}, {"a", 2}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Transform([]Frame{table()}, tt.all)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestMergeJoinsRowsThatAgree(t *testing.T) {
	a := Frame{[]string{"host", "Value #A"}, [][]any{{"x", 1}, {"y", 2}}}
	b := Frame{[]string{"host", "Value #B"}, [][]any{{"y", 3}, {"z", 4}}}
	got, err := Transform([]Frame{a, b}, []grafana.Transform{{ID: "merge"}})
	require.NoError(t, err)
	require.Equal(t, Frame{[]string{"host", "Value #A", "Value #B"}, [][]any{{"x", 1, nil}, {"y", 2, 3}, {"z", nil, 4}}}, got)
}

func TestAnotherTransformationIsAnError(t *testing.T) {
	_, err := Transform([]Frame{{}}, []grafana.Transform{{ID: "joinByField"}})
	require.ErrorIs(t, err, ErrTransformation)
	_, err = Transform([]Frame{{}, {}}, nil)
	require.ErrorIs(t, err, ErrTransformation)
}
