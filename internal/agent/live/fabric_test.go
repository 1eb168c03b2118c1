package live

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

// pairRecord returns the current state of a pair of a port of mlx5_0 and a host.
func pairRecord(port int, host string, ofPair, ofPort verdict.Verdict, change ...func(*measure.FabricPeer)) timeline.Record {
	p := &measure.FabricPeer{
		Device: "mlx5_0", Port: port, PeerHost: host, PeerDevice: "mlx5_0", PeerGroup: "rack1", Scope: "group", Verdict: ofPair, Path: -1,
		AgeNS: int64(4200 * time.Millisecond), Probes: verdict.Counts{Sent: 1023, Answered: 1006, ForwardLost: 17},
	}
	for _, f := range change {
		f(p)
	}
	return timeline.NewPair(p, aggregate.Percentiles{Count: 9, P50: 2100, P99: 5300}, aggregate.Percentiles{}, ofPort)
}

func somePairs() []timeline.Record {
	return []timeline.Record{
		pairRecord(1, "gpu01", "ok", "ok"), pairRecord(1, "gpu02", "path", "ok", func(p *measure.FabricPeer) { p.SilentNS, p.Bad = 4.5e9, true }),
		pairRecord(2, "gpu03", "", "own_link", func(p *measure.FabricPeer) { p.Reason, p.PeerDevice, p.AgeNS = "key", "", 61e9 }),
		pairRecord(2, "gpu04", "own_link", "own_link"),
	}
}

// runPairs runs a Screen of pairs for a duration, and returns the output.
func runPairs(t *testing.T, c Config, lasting time.Duration) string {
	t.Helper()
	return runScreen(t, c, gatherNothing, func(*Screen) { <-time.After(lasting) })
}

const table = `4 pairs: 1 own_link, 1 path, 1 not met, 1 ok
mlx5_0:2  own_link  most pairs of the port are bad at once: its own link is at fault (cable, transceiver or switch port)
port      peer          verdict       for  sent  lost there  back  echo p50    p99  write p50  p99
mlx5_0:2  gpu04 mlx5_0  own_link       4s  1023          17     0     2.1µs  5.3µs          -    -  most pairs of the port are bad at once
mlx5_0:1  gpu02 mlx5_0  path           4s  1023          17     0     2.1µs  5.3µs          -    -  echo and write silent for 4.5s, the peer's process answers
mlx5_0:2  gpu03         not met: key  1m1s  1023         17     0     2.1µs  5.3µs          -    -  the peer has another key
mlx5_0:1  gpu01 mlx5_0  ok             4s  1023          17     0     2.1µs  5.3µs          -    -
`

func TestPairsAreATableWithTheWorstOnTop(t *testing.T) {
	got := runPairs(t, Config{Pairs: somePairs}, 1500*time.Millisecond)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	want := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	require.Len(t, lines, len(want), got)
	require.Regexp(t, `^\d\d:\d\d:\d\d  `+want[0]+"$", lines[0])
	for i := range want[1:] {
		require.True(t, strings.HasPrefix(strings.Join(strings.Fields(lines[i+1]), " "), strings.Join(strings.Fields(want[i+1]), " ")), got)
	}
	header := lines[2]
	for _, row := range lines[3:] {
		require.Equal(t, strings.Index(header, "peer"), strings.Index(row, "gpu0"), "columns are below each other:\n%s", got)
	}
}

func TestATableComesAsOftenAsIsAskedFor(t *testing.T) {
	tables := func(c Config) int {
		c.Pairs = somePairs
		return strings.Count(runPairs(t, c, 7500*time.Millisecond), "4 pairs:")
	}
	require.Equal(t, 7, tables(Config{}))
	require.Equal(t, 3, tables(Config{Every: 3 * time.Second}))
	require.Equal(t, 7, tables(Config{Every: 3 * time.Second, Colours: true}), "a terminal shows the present")
}

func TestOnATerminalTheTableStaysAndFits(t *testing.T) {
	got := runPairs(t, Config{Pairs: somePairs, Colours: true, Height: func() int { return 5 }, Width: func() int { return 30 }}, 2500*time.Millisecond)
	require.Equal(t, 2, strings.Count(got, "4 pairs:"))
	require.Equal(t, 1, strings.Count(got, "\x1b[4A\x1b[J"), "four lines are drawn, and erased: %q", got)
	require.Equal(t, 2, strings.Count(got, "... 4 more lines\n"))
	require.Contains(t, got, "\x1b[31m") // a colour
}

func TestWithoutAPairTheTableSaysSo(t *testing.T) {
	got := runPairs(t, Config{Pairs: func() []timeline.Record { return nil }}, 1500*time.Millisecond)
	require.Regexp(t, `^\d\d:\d\d:\d\d  no pair yet\n$`, got)
}

func TestForProgramsEachPairIsAnObject(t *testing.T) {
	got := runPairs(t, Config{Pairs: somePairs, JSON: true}, 1500*time.Millisecond)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	require.Len(t, lines, 4)
	for _, line := range lines {
		schema.Require(t, "fabric", line)
	}
	require.Contains(t, lines[1], `"kind":"fabric_pair","device":"mlx5_0","port":1,"peer":{"host":"gpu02"`)
	require.Contains(t, lines[2], `"reason":"key"`)
}

// Changes of verdicts are shown by watch like any other change, and are objects that match the schema.
func TestChangesOfPairsAreLinesOfWatch(t *testing.T) {
	play := func(s *Screen) {
		one := &measure.FabricPeer{
			Device: "mlx5_0", Port: 1, PeerHost: "gpu042", PeerDevice: "mlx5_0", PeerGroup: "rack2", Scope: "across",
			Verdict: "path", Bad: true, SilentNS: 270e6, Path: -1, At: timeAt(977),
		}
		own := &measure.FabricPort{Device: "mlx5_0", Port: 1, Verdict: "own_link", Bad: true, At: timeAt(980)}
		for range 2 {
			s.Emit(one)
			s.Emit(own)
		}
	}
	require.Equal(t, `17:00:00.977000  mlx5_0:1 > gpu042 mlx5_0  path  echo and write silent for 270ms, the peer's process answers
17:00:00.980000  mlx5_0:1    own_link             most pairs of the port are bad at once: its own link is at fault (cable, transceiver or switch port)
`, runScreen(t, Config{}, gatherNothing, play))
	lines := strings.Split(strings.TrimSpace(runScreen(t, Config{JSON: true}, gatherNothing, play)), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		schema.Require(t, "watch", line)
	}
}
