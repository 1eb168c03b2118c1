package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/aggregate"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

func TestAHostIsTheSumOfItsDevices(t *testing.T) {
	totals := HostTotals{Flaps: 5}
	h := &Host{HostTotals: totals}
	for _, p := range []Point{
		&Device{Present: true, Open: true}, &Device{Present: true}, &Device{Reason: status.ReasonRemoved},
		&Device{Reason: status.ReasonRenamed},
		&Port{Known: true, HasState: true, State: verbs.PortActive},
		&Port{Known: true, HasState: true, State: verbs.PortInit},
		&Port{Known: true, HasState: true, State: verbs.PortDown, Expected: true},
		&Port{HasState: true, State: verbs.PortAbsent},
		&Port{Known: true},
		&Async{Unacked: 1}, &Async{Unacked: 2},
		&Probe{WakeP: aggregate.Percentiles{P99: 70}}, &Probe{WakeP: aggregate.Percentiles{P99: 50}, Unacked: 4},
		&Event{Count: 100},
	} {
		h.Add(p)
	}
	require.Equal(t, &Host{HostTotals: totals, Missing: 1, Unwatched: 1, PortsDown: 1, Unacked: 7, WakeP99: 70}, h)
}
