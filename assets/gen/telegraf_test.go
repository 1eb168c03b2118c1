package gen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/measure"
)

func TestAStringWithoutAPlaceIsAnError(t *testing.T) {
	_, err := Files(Prometheus, Defaults(), []measure.Metric{{
		Name: "rdma_port", Emitted: "every interval", Fields: []measure.Field{{Name: "colour", Kind: measure.String}},
	}})
	require.EqualError(t, err, "make telegraf.conf: rdma_port.colour is a string and in no family of labels")
}

func TestLabelsAreFieldsOfTheTable(t *testing.T) {
	for _, m := range measure.All() {
		for _, family := range labelFamilies()[m.Name] {
			for _, name := range family.Fields {
				_, ok := m.Field(name)
				require.True(t, ok, "%s.%s", m.Name, name)
			}
		}
	}
}
