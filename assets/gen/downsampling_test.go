package gen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/measure"
)

func TestEveryFieldIsKeptUnderItsName(t *testing.T) {
	for _, m := range measure.All() {
		require.Contains(t, influxdb.Downsampling, `"rdma"."long"."`+m.Name+`"`)
		for _, f := range m.Fields {
			if !strings.Contains(f.Name, "<") {
				require.Regexp(t, `\("`+f.Name+`"(, 50)?\) AS "`+f.Name+`"`, influxdb.Downsampling, m.Name)
			}
		}
	}
}

func TestNothingThatIsThereIsAltered(t *testing.T) {
	shared, err := influxdb.In("telegraf")
	require.NoError(t, err)
	for _, place := range []influxdb.Place{influxdb.Own(), shared} {
		text := string(downsampling(place, measure.All()))
		require.NotContains(t, text, "ALTER")
		require.NotContains(t, text, "autogen")
		require.Contains(t, text, "InfluxDB 1.x")
	}
}
