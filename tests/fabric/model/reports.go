package model

import (
	"slices"
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/history"
)

// Reports returns what the hosts of a run report: all is well until begins, and from then on they have the verdicts of the
// outcome. The caller sets the times of the result.
func (o *Outcome) Reports(p *Plan, begins time.Duration) *history.Fabric {
	silent := func(host int) bool { return slices.Contains(p.Off, host) || slices.Contains(p.Stopped, host) }
	return &history.Fabric{
		Groups: Groups, Size: Size, Name: HostName, Peers: peers,
		Pair: func(since time.Duration, by, to history.FabricHost) history.FabricPair {
			v := o.Verdicts[Pair{by.Number, to.Number}]
			if since < begins || v == verdict.VerdictOK {
				return history.FabricPair{}
			}
			return history.FabricPair{Verdict: v}
		},
		Port: func(since time.Duration, h history.FabricHost) history.FabricPort {
			return history.FabricPort{Off: silent(h.Number), OwnLink: since >= begins && o.OwnLink[h.Number]}
		},
	}
}
