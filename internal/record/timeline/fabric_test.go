package timeline

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/record/recorder"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

// fabricPeer returns a point of the pair with gpu042 with a verdict. ms is its time.
func fabricPeer(ms int, verdict verdict.Verdict, change ...func(*measure.FabricPeer)) *measure.FabricPeer {
	p := &measure.FabricPeer{
		Device: "mlx5_0", Port: 1, OwnGroup: "rack1", PeerHost: "gpu042", PeerDevice: "mlx5_0", PeerGroup: "rack2", Scope: "across",
		Verdict: verdict, Path: -1, At: at(ms),
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func unmetPeer(ms int, reason verdict.Reason) *measure.FabricPeer {
	return fabricPeer(ms, "", func(p *measure.FabricPeer) { p.Reason, p.PeerDevice = reason, "" })
}

func withSilence(d time.Duration) func(*measure.FabricPeer) {
	return func(p *measure.FabricPeer) { p.SilentNS, p.Bad = int64(d), p.Verdict == "path" }
}

func withLoss(probes uint64) func(*measure.FabricPeer) {
	return func(p *measure.FabricPeer) { p.Probes.ForwardLost, p.Probes.ReverseLost = probes-5, 5 }
}

func fabricPort(ms int, verdict verdict.Verdict) *measure.FabricPort {
	p := &measure.FabricPort{Device: "mlx5_0", Port: 1, OwnGroup: "rack1", Verdict: verdict, List: "00112233aabbccdd", At: at(ms)}
	p.Pairs, p.PairsMet = 8, 8
	return p
}

func TestWhatIsSaidOfPairsAndPortsIsRecordedWhenItChanges(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for _, p := range []measure.Point{
			fabricPort(0, "ok"), fabricPeer(1, "starting"), fabricPeer(2000, "ok"), fabricPeer(9000, "path", withSilence(270*time.Millisecond)),
			fabricPeer(10_000, "path", withSilence(time.Second)), fabricPeer(14_300, "ok"), fabricPort(15_000, "own_link"), fabricPort(19_000, "ok"),
			unmetPeer(20_000, "key"), fabricPeer(80_000, "starting"), fabricPeer(80_400, "ok"),
		} {
			r.Emit(p)
		}
	})
	require.Equal(t, []string{
		"mlx5_0:1 > gpu042 mlx5_0 ok echoes and writes are answered",
		"mlx5_0:1 > gpu042 mlx5_0 path echo and write silent for 270ms, the peer's process answers",
		"mlx5_0:1 > gpu042 mlx5_0 ok after 5.3s of path",
		"mlx5_0:1 own_link most pairs of the port are bad at once: its own link is at fault (cable, transceiver or switch port)",
		"mlx5_0:1 ok after 4s of own_link",
		"mlx5_0:1 > gpu042 not met: key the peer has another key, its certificate has expired or is of another authority or name, or another " +
			"host has its address; give both hosts the same fabric.key_file and restart the plugin, or give them valid certificates of one " +
			"authority; check the peer's address in the list",
		"mlx5_0:1 > gpu042 mlx5_0 ok after 1m0s not met: key",
	}, withoutTimes(all))
	for _, k := range all {
		text, err := json.Marshal(k)
		require.NoError(t, err)
		schema.Require(t, "events", string(text))
	}
}

// Points of an interval repeat known verdicts.
func TestOfAnIntervalNothingOfTheFabricIsRecorded(t *testing.T) {
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		r.RecordInterval([]measure.Point{fabricPort(0, "own_link"), fabricPeer(0, "path"), &measure.Fabric{OwnGroup: "rack1"}})
	})
	require.Empty(t, all)
}

func TestEachVerdictIsExplained(t *testing.T) {
	for want, p := range map[string]*measure.FabricPeer{
		"ok  echoes and writes are answered, writes in 3.1µs": fabricPeer(0, "ok",
			func(p *measure.FabricPeer) { p.WriteNSP50 = 3100 }),
		"starting  connected; waiting for the first echo and the first write":                    fabricPeer(0, "starting"),
		"path  echo and write silent, the peer's process answers":                                fabricPeer(0, "path"),
		"peer_port  echo and write silent for 300ms, and the peer's process reports its port as": fabricPeer(0, "peer_port", withSilence(300*time.Millisecond)),
		"peer_down  echo, write and the peer's process silent for 1.2s":                          fabricPeer(0, "peer_down", withSilence(1200*time.Millisecond)),
		"peer_busy  the peer's process does not echo for 2.1s, its NIC acknowledges writes":      fabricPeer(0, "peer_busy", withSilence(2100*time.Millisecond)),
		"partial  path 2 silent, other paths are not": fabricPeer(0, "partial",
			func(p *measure.FabricPeer) { p.Path = 2 }),
		"partial  the write's path silent, other paths are not": fabricPeer(0, "partial",
			func(p *measure.FabricPeer) { p.Path = 4 }),
		"partial  one path silent, other paths are not":                                  fabricPeer(0, "partial"),
		"lossy_forward  probes lost on the way to the peer, 17 so far":                   fabricPeer(0, "lossy_forward", withLoss(17)),
		"lossy_reverse  echoes lost on the way back from the peer, 17 so far":            fabricPeer(0, "lossy_reverse", withLoss(17)),
		"lossy_both  probes lost in both directions, 17 so far":                          fabricPeer(0, "lossy_both", withLoss(17)),
		"own_link  most pairs of the port are bad at once: its own link is at fault":     fabricPeer(0, "own_link"),
		"not met: no_responder  no plugin answers at the peer's address; run the plugin": unmetPeer(0, "no_responder"),
		"eclipse  ": fabricPeer(0, "eclipse"), // of a later version
	} {
		line := Style{}.Line(&Record{Kind: KindFabricPeer, Device: "mlx5_0", Port: 1, Peer: NewPeer(p)})
		require.Contains(t, line+"  ", "mlx5_0:1 > "+NewPeer(p).Name()+"  "+want)
	}
}

func TestOnlyAPartialPairHasAPathInItsObject(t *testing.T) {
	require.Equal(t, 0, *NewPeer(fabricPeer(0, "partial", func(p *measure.FabricPeer) { p.Path = 0 })).Path)
	require.Nil(t, NewPeer(fabricPeer(0, "path", func(p *measure.FabricPeer) { p.Path = 0 })).Path)
}

// recordTexts returns the words of the records that the points cause.
func recordTexts(points ...measure.Point) (words []string) {
	c := NewChanges(RegisterFabric)
	for _, p := range points {
		if r, ok := c.RecordOf(p, nil); ok && r.Peer != nil {
			words = append(words, r.Peer.Word())
		} else if ok {
			words = append(words, string(r.Fabric.Verdict))
		}
	}
	return words
}

func TestAPeerWithNewQueuesIsNewsAndAPairThatRestsIsNot(t *testing.T) {
	require.Equal(t, []string{"ok", "starting", "ok"}, recordTexts(fabricPeer(0, "starting"), fabricPeer(1, "ok"), fabricPeer(2, "starting"), fabricPeer(3, "ok")))
	require.Equal(t, []string{"ok"},
		recordTexts(unmetPeer(0, "starting"), fabricPeer(1, "ok"), unmetPeer(2, "own_port"), fabricPeer(3, "starting"), fabricPeer(4, "ok"), fabricPeer(5, "ok")))
	require.Equal(t, []string{"ok", "path", "ok"},
		recordTexts(fabricPeer(1, "ok"), fabricPeer(2, "path"), unmetPeer(3, "own_port"), unmetPeer(4, "starting"), fabricPeer(5, "starting"), fabricPeer(6, "ok")))
	require.Equal(t, []string{"ok", "path", "ok"},
		recordTexts(fabricPeer(1, "ok"), fabricPeer(2, "path"), fabricPeer(3, "own_link"), fabricPeer(4, "path"), fabricPeer(5,
			"ok")), "what most pairs say is the port's record")
	require.Equal(t, []string{"path", "path"}, recordTexts(fabricPeer(0, "path"),
		fabricPeer(1, "path", func(p *measure.FabricPeer) { p.Port = 2 }), fabricPeer(2, "path", func(p *measure.FabricPeer) { p.PeerDevice = "" })))
}

func TestAPortThatIsNotWellAtFirstIsNews(t *testing.T) {
	require.Equal(t, []string{"own_port", "ok"}, recordTexts(fabricPort(0, "own_port"), fabricPort(1, "own_port"), fabricPort(2, "ok")))
	require.Empty(t, recordTexts(fabricPort(0, "ok"), fabricPort(1, "ok")))
}

func TestAPairIsAnObjectAsItsSchemaSays(t *testing.T) {
	p := fabricPeer(0, "path", withSilence(time.Second))
	p.Probes = verdict.Counts{Sent: 9, Answered: 7, ForwardLost: 2}
	r := NewPair(p, aggregate.Percentiles{Count: 7, P50: 2100, P99: 5300}, aggregate.Percentiles{}, "ok")
	r.Schema = Schema
	text, err := json.Marshal(r)
	require.NoError(t, err)
	schema.Require(t, "fabric", string(text))
	require.JSONEq(t, `{"schema":1,"time":"2023-11-14T22:13:20Z","kind":"fabric_pair","device":"mlx5_0","port":1,
		"peer":{"host":"gpu042","device":"mlx5_0","group":"rack2","scope":"across","verdict":"path","bad":true,"silent_ns":1000000000,"lost":2},
		"pair":{"own_verdict":"ok","sent":9,"answered":7,"forward_lost":2,"reverse_lost":0,"busy_lost":0,"unknown_lost":0,"pending":0,
			"writes":0,"writes_ok":0,"writes_late":0,"write_errors":0,"reconnects":0,"echo_ns_p50":2100,"echo_ns_p99":5300}}`, string(text))
}

func TestARecordOfAPairCommandsNoTerminal(t *testing.T) {
	p := fabricPeer(0, "ok", func(p *measure.FabricPeer) { p.PeerDevice = "\x1b[2J" })
	require.Equal(t, "gpu042 ?[2J", NewPeer(p).Name())
	k, err := NewStoredRecord(&recorder.Record{
		Kind: KindFabricPeer, Device: "mlx5_0", Port: 1, Data: []byte(`{"peer":{"host":"\u001b[2J","reason":"x\u009b\n"}}`),
	})
	require.NoError(t, err)
	require.Contains(t, Style{}.StoredLine(&k), "mlx5_0:1 > ?[2J  not met: x??")
	for _, r := range []recorder.Record{{Kind: KindFabricPeer}, {Kind: KindFabricPort, Data: []byte(`{"peer":{}}`)}, {Kind: KindFabricPair}} {
		_, err := NewStoredRecord(&r)
		require.ErrorContains(t, err, "without its data", r.Kind)
	}
}
