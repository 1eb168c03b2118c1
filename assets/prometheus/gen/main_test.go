package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
)

func TestTheFileIsThatOfTheTable(t *testing.T) {
	want, err := configuration(measure.All())
	require.NoError(t, err)
	have, err := os.ReadFile("../telegraf.conf")
	require.NoError(t, err)
	require.Equal(t, string(want), string(have), "run: go generate ./assets/prometheus")
}

func TestAStringWithoutAPlaceIsAnError(t *testing.T) {
	_, err := configuration([]measure.Metric{{
		Name: "rdma_port", Emitted: "every interval", Fields: []measure.Field{{Name: "colour", Kind: measure.String}},
	}})
	require.EqualError(t, err, "rdma_port.colour is a string and in no family of labels")
}

func TestLabelsAreFieldsOfTheTable(t *testing.T) {
	for _, m := range measure.All() {
		for _, family := range labels()[m.Name] {
			for _, name := range family.Fields {
				_, ok := m.Field(name)
				require.True(t, ok, "%s.%s", m.Name, name)
			}
		}
	}
}
