package history_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/history"
	"rdma_events/tests/rig"
)

// fabricPoints returns the points of ten minutes from a fabric with three groups of four hosts. Host 1 is cut off for one minute.
func fabricPoints(t *testing.T) []rig.Point {
	t.Helper()
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	cut := history.Span{From: 5 * time.Minute, To: 6 * time.Minute}
	f := history.Fabric{
		Groups: 3, Size: 4, Start: start, End: start.Add(10 * time.Minute), Interval: 10 * time.Second,
		Pair: func(since time.Duration, from, to history.FabricHost) history.FabricPair {
			if cut.Has(since) && (from.Number == 1 || to.Number == 1) {
				return history.FabricPair{Verdict: verdict.VerdictPath}
			}
			return history.FabricPair{}
		},
		Port: func(since time.Duration, h history.FabricHost) history.FabricPort {
			return history.FabricPort{OwnLink: h.Number == 1 && cut.Has(since)}
		},
	}
	var out bytes.Buffer
	require.NoError(t, f.Write(&out))
	points, err := rig.Parse(out.Bytes())
	require.NoError(t, err)
	return points
}

func TestEveryProbeOfAFabricIsInOneOfItsCounts(t *testing.T) {
	n := 0
	for _, p := range fabricPoints(t) {
		if p.Measurement != "rdma_fabric" && p.Measurement != "rdma_fabric_port" {
			continue
		}
		n++
		sum := int64(0)
		for _, name := range []string{"answered", "forward_lost", "reverse_lost", "busy_lost", "unknown_lost", "pending"} {
			sum += p.Int(name)
		}
		require.Equal(t, p.Int("sent"), sum, "%v", p)
	}
	require.GreaterOrEqual(t, n, 12*60)
}

func TestAHostThatIsCutOffHasObserversAndBlamesItsOwnLink(t *testing.T) {
	points := fabricPoints(t)
	observers := map[string]bool{}
	for _, p := range rig.Select(points, "rdma_fabric_peer", "peer_host", "node0002") {
		if p.Int("bad") == 1 {
			observers[p.Tags["host"]] = true
		}
	}
	require.GreaterOrEqual(t, len(observers), 4)
	own := 0
	for _, p := range rig.Select(points, "rdma_fabric_peer", "host", "node0002") {
		require.Zero(t, p.Int("bad"))
		if p.Text("verdict") == "own_link" {
			own++
		}
	}
	require.Equal(t, 8*6, own, "all of its eight peers, for a minute")
	last := rig.Select(points, "rdma_fabric_peer", "host", "node0001", "peer_host", "node0002")
	require.Equal(t, "ok", last[len(last)-1].Text("verdict"), "the end is reported once")
}
