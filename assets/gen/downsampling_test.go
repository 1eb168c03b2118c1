package gen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
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

// A pair that was bad and is ok again must not be kept as bad with the verdict ok.
func TestWhatIsAboutAVerdictIsKeptOfTheSameMoment(t *testing.T) {
	for _, m := range measure.All() {
		for _, f := range m.Fields {
			switch m.Name + "." + f.Name {
			case "rdma_fabric_peer.verdict", "rdma_fabric_peer.bad", "rdma_fabric_peer.age_ns", "rdma_fabric_peer.direction", "rdma_fabric_peer.path",
				"rdma_fabric_port.verdict", "rdma_fabric_port.bad", "rdma_fabric_port.verdict_age_ns":
				require.Equal(t, latest, fieldAggregate(m.Name, f), "%s.%s", m.Name, f.Name)
			case "rdma_fabric_port.pairs_bad", "rdma_fabric.pairs_bad":
				require.Equal(t, greatest, fieldAggregate(m.Name, f), "%s.%s", m.Name, f.Name)
			}
		}
	}
}
