package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARatioIsTakenWithinEachTurn(t *testing.T) {
	f := Figure{Ours: []float64{10, 30, 22}, Other: []float64{10, 20, 20}, Bound: 1.1}
	require.InDeltaSlice(t, []float64{1, 1.5, 1.1}, f.judged(), 1e-9)
	require.True(t, f.Met(), "the median is 1.1")
	f.AtLeast, f.Bound = true, 1.2
	require.False(t, f.Met())
}

func TestWithoutAnotherTheValueIsJudged(t *testing.T) {
	f := Figure{Ours: []float64{12, 17, 13, 14}, Bound: 13.5}
	require.True(t, f.Met(), "the median of an even number lies between")
	require.False(t, (&Figure{Bound: 1}).Met(), "nothing was measured")
	require.False(t, (&Figure{Bound: 1, Ours: []float64{1}, Other: []float64{0}}).Met(), "there is nothing to compare with")
}

func TestTheReportIsATablePerSection(t *testing.T) {
	r := &Report{
		Figures: []Figure{
			{Section: "Wake", What: "p50", Unit: "us", Ours: []float64{90, 110, 100}, Other: []float64{100, 100, 100},
				OtherIs: "C loop", Bound: 1.05, Note: "both on rxe"},
			{Section: "Memory", What: "worker", Unit: "MiB", Ours: []float64{17}, Bound: 16, Missed: "two stacks are mapped"},
			{Section: "Memory", What: "host", Unit: "MiB", Ours: []float64{40}, Bound: 32},
			{Section: "Memory", What: "both", Unit: "MiB", Ours: []float64{40}, Bound: 64, Missed: "it is not"},
			{Section: "Drain", What: "rate", Unit: "1/s", Ours: []float64{9, 9}, Other: []float64{10, 10}, OtherIs: "C loop",
				BusyOurs: []float64{4, 6}, BusyOther: []float64{10, 10}, Bound: 0.9, AtLeast: true},
			{Section: "Drain", What: "time", Unit: "ms", Ours: []float64{3}, BusyOurs: []float64{5}},
			{Section: "Drain", What: "memory", Unit: "MiB", Ours: []float64{3}},
			{Section: "Wake", What: "p99", Unit: "us", Ours: []float64{1234.5}},
		},
		Tables: []Table{{Section: "Peers", Lead: "What they export.", Head: []string{"who", "rxe"}, Rows: [][]string{{"x", "nothing"}}}},
	}
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, r.Save(path))
	r, err := Load(path)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.Render(&b, "# Benchmarks\n"))
	require.Equal(t, `# Benchmarks

## Wake

| what | ours | other | ratio | turns | target | met |
|---|---|---|---|---|---|---|
| p50 | 100 [90 to 110] us | 100 us (C loop) | 1 [0.900 to 1.10] | 3 | at most 1.05 times | yes |
| p99 | 1234 us |  |  | 1 |  |  |

- p50: both on rxe

## Memory

| what | ours | other | ratio | turns | target | met |
|---|---|---|---|---|---|---|
| worker | 17 MiB |  |  | 1 | at most 16 MiB | **no** |
| host | 40 MiB |  |  | 1 | at most 32 MiB | **no** |
| both | 40 MiB |  |  | 1 | at most 64 MiB | yes |

- **missed by 6.25 %**: worker, against the target: two stacks are mapped
- **missed by 25 %**: host, against the target: not known why

## Drain

| what | ours | other | ratio | turns | target | met | beside a busy core |
|---|---|---|---|---|---|---|---|
| rate | 9 1/s | 10 1/s (C loop) | 0.900 | 2 | at least 0.900 times | yes | 0.500 [0.400 to 0.600] times: **no** |
| time | 3 ms |  |  | 1 |  |  | 5 ms |
| memory | 3 MiB |  |  | 1 |  |  |  |

- **missed by 44.4 % beside a busy core**: rate, against C loop

## Peers

What they export.

| who | rxe |
|---|---|
| x | nothing |
`, b.String())
}
