package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

const root = "../../../.."

func TestDocumentsSayWhatTheTableSays(t *testing.T) {
	for _, p := range generatedParts() {
		text, err := os.ReadFile(filepath.Join(root, p.file))
		require.NoError(t, err)
		want, err := document.Replace(string(text), p.name, p.text)
		require.NoError(t, err)
		require.Equal(t, want, string(text), "run go generate ./plugins/inputs/rdma_events")
	}
}

func TestCommandsChangeWithPaceAndTable(t *testing.T) {
	one := []drivers.Driver{{
		Name: "one", Kernel: []string{"mlx5_core"}, First: verbs.MethodFlush,
		Costs: drivers.Costs{drivers.PortQuery: 2, drivers.CreateQP: 1, drivers.PKey: 1, drivers.HWCounter: 3},
		Never: []verbs.Method{verbs.MethodUDSend},
	}}
	text := commandTable(one, drivers.Pace{State: 5 * time.Second, Probe: time.Second, Command: 10 * time.Second})
	require.Contains(t, text, "| one | 24 | cannot | 0 | 60 | 18 | 0 | 816 |\n")
	require.Contains(t, text, "for each entry on one.")
	require.Contains(t, commandTable(one, drivers.Pace{State: 10 * time.Second, Probe: 2 * time.Second}), "| one | 12 | cannot | 0 | 30 | 0 | 0 | 336 |\n")
	one[0].Costs[drivers.PortQuery] = 3
	require.Contains(t, commandTable(one, drivers.Pace{State: 5 * time.Second}), "| one | 36 | cannot | 0 | 0 | 0 | 0 | 288 |\n")
	one[0].Files = drivers.Files{HWCounters: 9, HWCounterQueries: 1}
	require.Contains(t, commandTable(one, drivers.Pace{State: 5 * time.Second, Snapshot: 30 * time.Second}), "| one | 36 | cannot | 0 | 0 | 0 | 6 | 336 |\n")
}

func TestSnapshotsAreCountedByFilesAndQueues(t *testing.T) {
	one := []drivers.Driver{{
		Name: "one", Kernel: []string{"mlx5_core"}, Files: drivers.Files{Counters: 5, HWCounters: 9, HWCounterQueries: 2},
		Costs: drivers.Costs{drivers.LinkDowned: 1, drivers.HWCounter: 3},
		Ethernet: drivers.Costs{
			drivers.LinkDowned: 1, drivers.HWCounter: 3, drivers.LinkState: 2, drivers.Statistics: 7, drivers.QueueStatistics: 4,
		},
	}}
	text := snapshotTable(one, drivers.Pace{Snapshot: time.Minute, Triggered: 10})
	require.Contains(t, text, "| one, InfiniBand | 5, 9 | 5 | 6 | 0 | 11 | 121 | 0 | 11 | 121 |\n")
	require.Contains(t, text, "| one, Ethernet | 5, 9 | 5 | 6 | 2 | 13 | 143 | 7 + 4 a queue | 20 + 4 a queue | 220 + 44 a queue |\n")
	off := snapshotTable(one, drivers.Pace{Triggered: 10})
	require.Contains(t, off, "| one, Ethernet | 5, 9 | 5 | 6 | 2 | 13 | 0 | 7 + 4 a queue | 20 + 4 a queue | 0 |\n")
}

func TestRowsSayWhatHasTriedADriver(t *testing.T) {
	text := overviewTable([]drivers.Driver{
		{Name: "a", Events: "none"},
		{Name: "b", Known: drivers.ByStandin, Standin: []string{"TestOne"}, Hardware: "2027-01-02, 16.35.4030, an operator"},
		{Name: "c", Known: drivers.InTheLab},
		{Name: "d", Known: drivers.EmulatedDevice},
	})
	require.Contains(t, text, "| a |  | no | no | none yet | none |  |  |\n")
	require.Contains(t, text, "| b |  | no | yes | 2027-01-02, 16.35.4030, an operator |  |  |  |\n")
	require.Contains(t, text, "| c |  | yes | no | needs none |  |  |  |\n")
	require.Contains(t, text, "| d |  | emulated device | no | none yet |  |  |  |\n")
}

// A row about a stand-in names tests that exist.
func TestStandinsTestsExist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "internal/device/native/*_test.go"))
	require.NoError(t, err)
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all += string(text)
	}
	for _, d := range drivers.All() {
		for _, name := range d.Standin {
			require.Contains(t, all, "\nfunc "+name+"(", d.Name)
		}
	}
}
