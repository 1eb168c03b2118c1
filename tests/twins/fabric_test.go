package twins

import (
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/history"
)

// faultyFabric is a fabric of four groups of four hosts with a fault of each kind.
func faultyFabric() history.Fabric {
	lasts := history.Span{From: 15 * time.Minute, To: 35 * time.Minute}
	rollout := history.Span{From: 10 * time.Minute, To: 48 * time.Minute}
	return history.Fabric{
		Groups: 4, Size: 4, Tags: map[string]string{"site": "east", "rack": "1"},
		Pair: func(since time.Duration, by, to history.FabricHost) history.FabricPair {
			if !lasts.Has(since) {
				return history.FabricPair{}
			}
			switch {
			case to.Number == 0 && by.In == 0 && by.Number < 3: // a suspect that loses what it receives
				return history.FabricPair{Verdict: verdict.VerdictLossyForward}
			case to.Number == 4 && by.In == 1:
				return history.FabricPair{Verdict: verdict.VerdictPeerBusy}
			case by.Number == 5: // blames its own link
				return history.FabricPair{Verdict: verdict.VerdictPath}
			case by.In == 2 && to.In != 2 && by.Number%4 < 2: // half of a group's pairs with others
				return history.FabricPair{Verdict: verdict.VerdictPartial, Path: 2}
			case by.In == 3:
				return history.FabricPair{Reason: "no_responder"}
			}
			return history.FabricPair{}
		},
		Port: func(since time.Duration, h history.FabricHost) history.FabricPort {
			p := history.FabricPort{OwnLink: h.Number == 5 && lasts.Has(since)}
			if h.Number == 6 && rollout.Has(since) {
				p.List = "0123456789abcdef"
			}
			return p
		},
	}
}

// smallFabric is a fabric of three hosts. Two of them do not reach each other, and both refuse the key of the third.
func smallFabric() history.Fabric {
	lasts := history.Span{From: 15 * time.Minute, To: 35 * time.Minute}
	return history.Fabric{
		Groups: 1, Size: 3, Tags: map[string]string{"site": "south", "rack": "1"},
		Name: func(host int) string { return []string{"south1", "south2", "south3"}[host] },
		Pair: func(since time.Duration, by, to history.FabricHost) history.FabricPair {
			switch {
			case !lasts.Has(since) || by.Number == 2:
				return history.FabricPair{}
			case to.Number == 2:
				return history.FabricPair{Reason: "key"}
			}
			return history.FabricPair{Verdict: verdict.VerdictPath}
		},
	}
}

// slowFabric is a fabric of two hosts with a past of 20 hours, whose writes are slow for a while.
func slowFabric() history.Fabric {
	slow := history.Span{From: 2 * time.Minute, To: 41 * time.Minute}
	return history.Fabric{
		Groups: 1, Size: 2, Tags: map[string]string{"site": "west", "rack": "1"}, From: -20 * time.Hour,
		Name: func(host int) string { return []string{"west1", "west2"}[host] },
		Port: func(since time.Duration, _ history.FabricHost) history.FabricPort {
			if slow.Has(since) {
				return history.FabricPort{WriteNS: 20 * history.UsualWriteNS}
			}
			return history.FabricPort{}
		},
	}
}
