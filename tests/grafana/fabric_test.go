package grafana

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/history"
)

// says is a verdict that hosts reach about some pairs in a span.
type says struct {
	history.Span
	history.FabricPair
	of func(by, to history.FabricHost) bool
}

// writeFabric writes what the hosts of the fault's fabric report. All of them are of a site of their own.
func (f *fault) writeFabric(t *testing.T, src Source) {
	t.Helper()
	one := *f.fabric
	one.Tags = map[string]string{"site": f.name, "rack": f.name}
	one.Start, one.End, one.Interval = historyStart(), historyStart().Add(end), 10*time.Second
	one.Tag = func(h history.FabricHost) string {
		if h.Number == 0 {
			return f.name
		}
		return f.name + ", " + h.Name
	}
	w := src.Server.NewWriter(t.Context(), src.Database)
	require.NoError(t, one.Write(w), f.name)
	require.NoError(t, w.Flush(), f.name)
}

// newFabric returns a fabric in which hosts reach verdicts. It begins at the end of the healthy hour, since the points of so many
// hosts for the whole hour would add minutes to the test; only one fabric has the whole hour.
func newFabric(groups, size int, all ...says) *history.Fabric {
	return &history.Fabric{Groups: groups, Size: size, From: afterHealthy(-5), Pair: func(since time.Duration, by, to history.FabricHost) history.FabricPair {
		for _, s := range all {
			if s.Has(since) && s.of(by, to) {
				return s.FabricPair
			}
		}
		return history.FabricPair{}
	}}
}

// toFirst is a verdict of the first observers of the first host, those of its own group before others.
func toFirst(v verdict.Verdict, begin, till, own, others int) says {
	return says{
		history.Span{From: afterHealthy(begin), To: afterHealthy(till)}, history.FabricPair{Verdict: v},
		func(by, to history.FabricHost) bool {
			if to.Number != 0 {
				return false
			}
			if by.In == 0 {
				return by.Number <= own
			}
			return by.In <= others
		},
	}
}

// ofFirst is a verdict of the first host about all others.
func ofFirst(v verdict.Verdict, begin, till int) says {
	return says{history.Span{From: afterHealthy(begin), To: afterHealthy(till)}, history.FabricPair{Verdict: v}, func(by,
		_ history.FabricHost) bool {
		return by.Number == 0
	}}
}

// ofGroup is a verdict of the hosts of the first group about those of others, as many of five as share.
func ofGroup(v verdict.Verdict, begin, till, share int) says {
	return says{
		history.Span{From: afterHealthy(begin), To: afterHealthy(till)}, history.FabricPair{Verdict: v},
		func(by, to history.FabricHost) bool { return by.In == 0 && to.In != 0 && by.Number < share },
	}
}

// fabricFaults are written by package history.
func fabricFaults() []fault {
	written := func(name string, f *history.Fabric, fires ...firing) fault {
		return fault{name: name, fires: fires, fabric: f}
	}
	fires := func(rule string, begin, stop int) firing {
		return firing{rule: rule, from: afterHealthy(begin), till: afterHealthy(stop)}
	}
	whole := func(f *history.Fabric) *history.Fabric {
		f.From = 0
		return f
	}
	blames := func(f *history.Fabric, lasts time.Duration) *history.Fabric {
		f.Port = func(since time.Duration, h history.FabricHost) history.FabricPort {
			return history.FabricPort{OwnLink: h.Number == 0 && afterHealthy(0) <= since && since < afterHealthy(0)+lasts}
		}
		return f
	}
	lists := func(f *history.Fabric, till int) *history.Fabric {
		f.Port = func(since time.Duration, h history.FabricHost) history.FabricPort {
			if h.Number == 1 && afterHealthy(0) <= since && since < afterHealthy(till) {
				return history.FabricPort{List: "0123456789abcdef"}
			}
			return history.FabricPort{}
		}
		return f
	}
	unmet := func(reason verdict.Reason, hosts, of int) says { // so many hosts with so many of the first group
		return says{history.Span{From: afterHealthy(0), To: afterHealthy(40)}, history.FabricPair{Reason: reason}, func(by, to history.FabricHost) bool {
			return to.Number < of && by.Number < hosts
		}}
	}
	return []fault{
		written("fabric-own-link", blames(whole(newFabric(5, 5)), 20*time.Minute), fires("fabric-own-link", 1, 20)),
		written("fabric-own-link, but short", blames(newFabric(5, 5), 40*time.Second)),
		written("fabric-suspect", newFabric(5, 5, toFirst(verdict.VerdictPartial, 0, 20, 2, 0)), fires("fabric-suspect", 1, 20)),
		written("fabric-suspect, but one observer", newFabric(5, 5, toFirst(verdict.VerdictPath, 0, 20, 1, 0)), fires("fabric-pair", 5, 20)),
		written("fabric-suspect, but of other groups", newFabric(5, 5, toFirst(verdict.VerdictPath, 0, 20, 1, 4)), fires("fabric-pair", 5, 20)),
		written("fabric-suspect, but down", newFabric(5, 5, toFirst(verdict.VerdictPeerDown, 0, 20, 4, 4))),
		written("fabric-suspect, but busy", newFabric(5, 5, toFirst(verdict.VerdictPeerBusy, 0, 20, 4, 4))),
		written("fabric-suspect in a small group", newFabric(5, 2, toFirst(verdict.VerdictPath, 0, 20, 1, 2)),
			fires("fabric-suspect", 1, 20)),
		written("fabric-suspect in a small group, but two", newFabric(5, 2, toFirst(verdict.VerdictPath, 0, 20, 1, 1)),
			fires("fabric-pair", 5, 20)),
		written("fabric-suspect of three hosts", newFabric(1, 3, toFirst(verdict.VerdictPath, 0, 20, 2, 0)), fires("fabric-suspect", 1, 20)),
		written("fabric-suspect, but it blames its own link",
			blames(newFabric(5, 5, toFirst(verdict.VerdictPath, 0, 20, 4, 4), ofFirst(verdict.VerdictPath, 0, 20)), 20*time.Minute),
			fires("fabric-own-link", 1, 20)),
		written("fabric-group", newFabric(5, 5, ofGroup(verdict.VerdictPath, 0, 20, 2)), fires("fabric-group", 1, 20)),
		written("fabric-group, but a fifth", newFabric(5, 5, ofGroup(verdict.VerdictLossyForward, 0, 9, 1))),
		written("fabric-group, but one host of three", newFabric(2, 3, ofGroup(verdict.VerdictLossyForward, 0, 9, 1))),
		written("fabric-group, of hosts that blame their own links", cutOff(2), fires("fabric-group", 1, 20), fires("fabric-own-link", 1, 20)),
		written("fabric-group, but down", newFabric(5, 5, ofGroup(verdict.VerdictPeerDown, 0, 20, 5))),
		written("fabric-pair", newFabric(1, 2, toFirst(verdict.VerdictPath, 0, 20, 1, 0)), fires("fabric-pair", 5, 20)),
		written("fabric-pair, one path", newFabric(1, 2, toFirst(verdict.VerdictPartial, 0, 20, 1, 0)), fires("fabric-pair", 5, 20)),
		written("fabric-pair, but short", newFabric(1, 2, toFirst(verdict.VerdictPath, 0, 4, 1, 0))),
		written("fabric-pair, but lossy", newFabric(1, 2, toFirst(verdict.VerdictLossyBoth, 0, 9, 1, 0))),
		written("fabric-pair, but down", newFabric(1, 2, toFirst(verdict.VerdictPeerDown, 0, 20, 1, 0))),
		written("fabric-lossy", newFabric(5, 5, toFirst(verdict.VerdictLossyForward, 0, 30, 1, 0)), fires("fabric-lossy", 10, 30)),
		written("fabric-lossy, but short", newFabric(5, 5, toFirst(verdict.VerdictLossyReverse, 0, 8, 1, 0))),
		written("fabric-slow", slowFabric(5, 20*history.UsualWriteNS), firing{rule: "fabric-slow", from: afterHealthy(10), till: afterHealthy(50)}),
		written("fabric-slow, but not far", slowFabric(5, 3*history.UsualWriteNS)),
		written("fabric-slow, but below 100 us", slowFabric(5, 7*history.UsualWriteNS)),
		written("fabric-slow, but without a past", slowFabric(0, 20*history.UsualWriteNS)),
		written("fabric-unmet", newFabric(5, 5, unmet("no_responder", 25, 3)), fires("fabric-unmet", 10, 40)),
		written("fabric-unmet, but few", newFabric(5, 5, unmet("no_responder", 4, 1))),
		written("fabric-unmet, but without such a device", newFabric(5, 5, unmet("unsupported", 25, 5))),
		written("fabric-key", newFabric(5, 5, unmet("key", 25, 3)), fires("fabric-key", 10, 40)),
		written("fabric-key, but exchanged", newFabric(5, 5, says{
			history.Span{From: afterHealthy(0), To: afterHealthy(6)}, history.FabricPair{Reason: "key"}, func(_, to history.FabricHost) bool { return to.Number < 3 },
		})),
		written("fabric-lists-differ", lists(newFabric(5, 5), 60), fires("fabric-lists-differ", 30, 60)),
		written("fabric-lists-differ, but rolled out", lists(newFabric(5, 5), 25)),
	}
}

// cutOff is a fabric whose first group does not reach others. So many of its hosts blame their own link.
func cutOff(blame int) *history.Fabric {
	f := newFabric(5, 5, ofGroup(verdict.VerdictPath, 0, 20, 5))
	f.Port = func(since time.Duration, h history.FabricHost) history.FabricPort {
		return history.FabricPort{OwnLink: h.Number < blame && afterHealthy(0) <= since && since < afterHealthy(20)}
	}
	return f
}

// slowFabric returns a fabric with one group in which writes take longer for some time. Its history begins 4*past hours before.
func slowFabric(past int, write int64) *history.Fabric {
	return &history.Fabric{
		Groups: 1, Size: 2, From: -time.Duration(past) * 4 * time.Hour,
		Port: func(since time.Duration, _ history.FabricHost) history.FabricPort {
			if afterHealthy(0) <= since && since < afterHealthy(50) {
				return history.FabricPort{WriteNS: write}
			}
			return history.FabricPort{}
		},
	}
}
