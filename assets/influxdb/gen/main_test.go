package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/measure"
)

func TestTheFileIsThatOfTheTable(t *testing.T) {
	require.Equal(t, string(statements(influxdb.Own(), measure.All())), influxdb.Downsampling, "run: go generate ./assets/influxdb")
}

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
		text := string(statements(place, measure.All()))
		require.NotContains(t, text, "ALTER")
		require.NotContains(t, text, "autogen")
		require.Contains(t, text, "InfluxDB 1.x")
	}
}

func TestUnusableArgumentIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for want, args := range map[string][]string{
		`read -database: "a\"b" is no name for a database: want letters, digits, and _ . -`: {"-database", `a"b`, file},
		"0 arguments: want one, the file to write":                                          {},
	} {
		require.EqualError(t, run(args, io.Discard), want)
		require.NoFileExists(t, file)
	}
}
