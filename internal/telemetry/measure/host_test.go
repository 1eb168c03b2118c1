package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
)

func TestAHostIsTheSumOfItsDevices(t *testing.T) {
	totals := HostTotals{Flaps: 5}
	h := &Host{HostTotals: totals}
	for _, p := range []Point{
		&Device{Present: true, Open: true}, &Device{Present: true}, &Device{Reason: status.ReasonRemoved},
		&Device{Reason: status.ReasonRenamed}, &Device{Present: true, Reason: status.ReasonOtherNetns, InOtherNetns: true},
		&Device{Reason: status.ReasonRenamed},
		&Device{Present: true, Reason: status.ReasonUnwatchable}, &Device{Reason: status.ReasonUnwatchable},
		&Port{Known: true, HasState: true, State: verbs.PortActive},
		&Port{Known: true, HasState: true, State: verbs.PortInit, ExpectedUp: true},
		&Port{Known: true, HasState: true, State: verbs.PortDown}, // unused
		&Port{Known: true, HasState: true, State: verbs.PortDown, Expected: true},
		&Port{HasState: true, State: verbs.PortAbsent},
		&Port{Known: true},
		&Async{Unacked: 1}, &Async{Unacked: 2},
		&Probe{WakeP: aggregate.Percentiles{P99: 70}}, &Probe{WakeP: aggregate.Percentiles{P99: 50}, Unacked: 4},
		&FabricPort{FabricCounts: FabricCounts{Pairs: 8, PairsMet: 6, PairsBad: 2}},
		&FabricPort{FabricCounts: FabricCounts{Pairs: 8, PairsMet: 8}, Bad: true},
		&Event{Count: 100},
	} {
		h.Add(p)
	}
	require.Equal(t, &Host{HostTotals: totals, Missing: 1, Unwatched: 1, PortsDown: 1, Unacked: 7, WakeP99: 70,
		Fabric: &HostFabric{PairsBad: 2, PortsBad: 1, PairsUnmet: 2}}, h)
}

func TestAHostWhoseFabricIsNotProbedSaysNothingOfIt(t *testing.T) {
	require.NotContains(t, onlyLine(t, &Host{}).Fields, "fabric_pairs_bad")
	require.Equal(t, int64(0), onlyLine(t, &Host{Fabric: &HostFabric{}}).Fields["fabric_pairs_bad"])
}

func TestAPortWhoseDriverIgnoresTheLinkHasNoUp(t *testing.T) {
	for name, row := range map[string]struct {
		change    func(*Port)
		up, known bool
		down      int64
	}{
		"active":        {func(*Port) {}, true, true, 0},
		"down":          {func(p *Port) { p.State = verbs.PortDown }, false, true, 1},
		"always active": {func(p *Port) { p.AlwaysActive = true }, false, false, 0},
		"nop":           {func(p *Port) { p.State = verbs.PortNop }, false, false, 0},
		"not open":      {func(p *Port) { p.Known = false }, false, false, 0},
	} {
		p := &Port{Device: "efa_0", Port: 1, Known: true, HasState: true, State: verbs.PortActive, ExpectedUp: true}
		row.change(p)
		up, known := p.Up()
		require.Equal(t, []bool{row.up, row.known}, []bool{up, known}, name)
		p.Lines(func(l Line) {
			_, has := l.Fields["up"]
			require.Equal(t, row.known, has, name)
		})
		var h Host
		h.Add(p)
		require.Equal(t, row.down, h.PortsDown, name)
	}
}
