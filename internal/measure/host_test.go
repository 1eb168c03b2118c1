package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

func TestAHostIsTheSumOfItsDevices(t *testing.T) {
	s := &Snapshot{
		Devices: []Device{
			{Present: true, Open: true}, {Present: true}, {Reason: status.ReasonRemoved}, {Reason: status.ReasonRenamed},
		},
		Ports: []Port{
			{Known: true, HasState: true, State: verbs.PortActive},
			{Known: true, HasState: true, State: verbs.PortInit},
			{Known: true, HasState: true, State: verbs.PortDown, Expected: true},
			{HasState: true, State: verbs.PortAbsent},
			{Known: true},
		},
		Async: []Async{{Unacked: 1}, {Unacked: 2}},
		Probes: []Probe{
			{WakeP: Percentiles{P99: 70}}, {WakeP: Percentiles{P99: 50}, Unacked: 4},
		},
		Totals: HostTotals{Flaps: 5},
	}
	require.Equal(t, host{
		HostTotals: s.Totals, missing: 1, unwatched: 1, portsDown: 1, unacked: 7, wakeP99: 70,
	}, sum(s))
}

func TestAHostWithoutDevicesSaysNothingOfThem(t *testing.T) {
	m := NewTables()
	points := m.Lines(&Snapshot{}, Own{}, at(0))
	require.Len(t, points, 1)
	require.Equal(t, "rdma_collector", points[0].Name)
}
