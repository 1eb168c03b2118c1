package grafana

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAKeyThatIsNotKnownIsAnError(t *testing.T) {
	_, err := ParseDashboard([]byte(`{"uid": "u", "panels": [{"id": 1, "gridpos": {"h": 1, "hight": 2}}]}`))
	require.ErrorContains(t, err, `"hight"`)
	_, err = ParseRules([]byte("apiVersion: 1\ngroups:\n  - name: g\n    intervall: 1m\n"))
	require.ErrorContains(t, err, "intervall")
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	one := 1.0
	d := &Dashboard{
		UID: "u", Tags: []string{"rdma"}, Panels: []Panel{{
			ID: 1, Type: "stat", Targets: []Target{{RefID: "A", Query: `SELECT "a" < 1 AND "b" > 2`}},
			FieldConfig: &FieldConfig{Defaults: FieldDefaults{Thresholds: &Thresholds{Steps: []Step{{Color: "red", Value: &one}}}}},
		}},
	}
	text, err := d.Marshal()
	require.NoError(t, err)
	require.Contains(t, string(text), `\"a\" < 1 AND \"b\" > 2`, "readable")
	back, err := ParseDashboard(text)
	require.NoError(t, err)
	require.Equal(t, d, back)

	f := &RuleFile{APIVersion: 1, Groups: []Group{{Name: "g", Rules: []Rule{{
		UID: "r", Data: []Query{{RefID: "A", Range: RelativeRange{From: 60}, Model: Model{Query: "q"}}},
		Labels: map[string]string{"severity": "critical"}, Annotations: map[string]string{},
	}}}}}
	text, err = f.Marshal()
	require.NoError(t, err)
	again, err := ParseRules(text)
	require.NoError(t, err)
	require.Equal(t, f, again)
}

func TestARelativeRangeEndsBeforeTheEvaluation(t *testing.T) {
	from, to := RelativeRange{From: 3600, To: 60}.At(time.Unix(10000, 0))
	require.Equal(t, time.Unix(6400, 0), from)
	require.Equal(t, time.Unix(9940, 0), to)
}
