package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/plugins/inputs/rdma_events"
)

func TestTheFileIsThatOfTheTable(t *testing.T) {
	require.Equal(t, string(statements(rdma_events.Metrics())), influxdb.Downsampling, "run: go generate ./assets/influxdb")
}

func TestEveryFieldIsKeptUnderItsName(t *testing.T) {
	for _, m := range rdma_events.Metrics() {
		require.Contains(t, influxdb.Downsampling, `"telegraf"."long"."`+m.Name+`"`)
		for _, f := range m.Fields {
			if !strings.Contains(f.Name, "<") {
				require.Regexp(t, `\("`+f.Name+`"(, 50)?\) AS "`+f.Name+`"`, influxdb.Downsampling, m.Name)
			}
		}
	}
}
