package measure

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// sumFields adds up the named fields of a line.
func sumFields(l Line, fields ...string) (n int64) {
	for _, name := range fields {
		n += l.Fields[name].(int64)
	}
	return n
}

// requireParity requires that a line counts every probe and every completion event in exactly one outcome.
func requireParity(t *testing.T, l Line) {
	t.Helper()
	require.Equal(t, l.Fields["sent"],
		sumFields(l, "answered", "forward_lost", "reverse_lost", "busy_lost", "unknown_lost", "pending"))
	if l.Name == "rdma_fabric_port" {
		require.Equal(t, l.Fields["events"], sumFields(l, "acked", "unacked", "released"))
	}
}

// addTraffic adds probes and events, each of which ends in one of the counts.
func addTraffic(r *rand.Rand, p *FabricPort) {
	n := func() uint64 { return r.Uint64N(50) }
	p.Answered += n()
	p.ForwardLost += n()
	p.ReverseLost += n()
	p.BusyLost += n()
	p.UnknownLost += n()
	p.Pending = n()
	p.Sent = p.Answered + p.ForwardLost + p.ReverseLost + p.BusyLost + p.UnknownLost + p.Pending
	p.Acked += n()
	p.Released += n()
	p.Unacked = n()
	p.FabricProberCounts.Events = p.Acked + p.Released + p.Unacked
}

func TestPointsOfThePortThatMergeKeepEveryProbeAndEveryEvent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	now := &FabricPort{Device: "d", Port: 1, OwnGroup: "g"}
	waiting := now.Clone()
	for i := range 100 {
		addTraffic(r, now)
		now.At = at(i)
		waiting.Merge(now.Clone())
		requireParity(t, onlyLine(t, waiting))
		require.Equal(t, now, waiting)
	}
}

func TestPairsAddUpWithEachOfTheirCounts(t *testing.T) {
	var counts []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[FabricCounts]()) {
		if !f.Anonymous {
			counts = append(counts, f.Name)
		}
	}
	require.Subset(t, counts, []string{"Pairs", "Sent"}, "the counts of pairs and the counts of probes")
	ones := func() *FabricCounts {
		var c FabricCounts
		v := reflect.ValueOf(&c).Elem()
		for i, name := range counts {
			switch f := v.FieldByName(name); {
			case f.CanInt():
				f.SetInt(int64(i + 1))
			default:
				f.SetUint(uint64(i + 1))
			}
		}
		return &c
	}
	var c FabricCounts
	for range 3 {
		c.Add(ones())
	}
	v := reflect.ValueOf(c)
	for i, name := range counts {
		if f := v.FieldByName(name); f.CanInt() {
			require.EqualValues(t, 3*(i+1), f.Int(), name)
		} else {
			require.EqualValues(t, 3*(i+1), f.Uint(), name)
		}
	}
}

func TestTheFilledPointsOfTheFabricAddUp(t *testing.T) {
	for _, p := range filledFabric()[:2] {
		requireParity(t, onlyLine(t, p))
	}
}

func TestLatenciesThatNothingMeasuredAreLeftOut(t *testing.T) {
	l := onlyLine(t, &Fabric{OwnGroup: "a", PeerGroup: "a", Scope: "group", FabricLatencies: FabricLatencies{WriteP: percentilesFrom(7), WriteMax: 9}})
	require.NotContains(t, l.Fields, "echo_ns_p50")
	require.NotContains(t, l.Fields, "echo_ns_max")
	require.NotContains(t, l.Fields, "responder_ns_p99")
	require.Equal(t, int64(9), l.Fields["write_ns_max"])
	require.Equal(t, map[string]string{"own_group": "a", "peer_group": "a", "scope": "group"}, l.Tags)
}

func TestOnlyAPartialPairHasAPath(t *testing.T) {
	partial := onlyLine(t, &FabricPeer{Verdict: "partial", Path: 0})
	require.Equal(t, int64(0), partial.Fields["path"])
	require.NotContains(t, onlyLine(t, &FabricPeer{Verdict: "partial", Path: -1}).Fields, "path")
	require.NotContains(t, onlyLine(t, &FabricPeer{Verdict: "path"}).Fields, "path")
}

func TestAPeerThatWasNotMetHasAReasonAndNoVerdict(t *testing.T) {
	l := onlyLine(t, &FabricPeer{Device: "d", Port: 1, OwnGroup: "a", PeerHost: "h", PeerGroup: "b", Scope: "across", Reason: "key"})
	want := map[string]any{"reason": "key"}
	for _, f := range findMetric(t, "rdma_fabric_peer").Fields {
		if !f.Optional {
			want[f.Name] = int64(0)
		}
	}
	require.Equal(t, want, l.Fields)
	require.Contains(t, l.Fields, "bad")
	require.NotContains(t, l.Fields, "verdict")
	require.NotContains(t, l.Tags, "peer_device")
}

func TestPointsOfDifferentPairsDoNotMerge(t *testing.T) {
	one := FabricPeer{Device: "d", Port: 1, OwnGroup: "a", PeerHost: "h", PeerDevice: "e", PeerGroup: "b", Scope: "across"}
	for _, change := range []func(*FabricPeer){
		func(p *FabricPeer) { p.Device = "x" }, func(p *FabricPeer) { p.Port = 2 }, func(p *FabricPeer) { p.OwnGroup = "x" },
		func(p *FabricPeer) { p.PeerHost = "x" }, func(p *FabricPeer) { p.PeerDevice = "x" }, func(p *FabricPeer) { p.PeerGroup = "x" },
		func(p *FabricPeer) { p.Scope = "group" },
	} {
		other := one
		change(&other)
		require.NotEqual(t, one.Key(), other.Key())
	}
	require.NotEqual(t, (&Fabric{OwnGroup: "a", PeerGroup: "b"}).Key(), (&Fabric{OwnGroup: "a", PeerGroup: "c"}).Key())
}
