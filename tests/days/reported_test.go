package days

import (
	"fmt"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// reported is what a host reports that days does not simulate: an application and its tracer, the probes of other hosts and the recorder.
// The points are written, as those of package history.
type reported struct {
	failing    bool      // the application has an error every ten minutes, and reads it at once
	unread     bool      // an error of another application waits
	hanging    bool      // a third one hangs in a destroy
	ownLink    bool      // the fabric says that the link of port 2 of mlx5_4 loses packets
	otherHas   time.Time // when another host gets the fabric's new list of peers, which this one has; zero: both have the old one
	newKey     bool      // this host has another key of the fabric than its peers
	refused    bool      // its peers were refused in the last interval
	diskFails  bool
	recorder   measure.Recorder
	errors     uint64 // since the plugin started
	next       time.Time
	hangs, bad time.Time // since when
}

// forget has the counters begin again, as they do with the plugin.
func (r *reported) forget() { r.recorder, r.errors = measure.Recorder{}, 0 }

// oldList and newList are digests of lists of peers.
const (
	oldList = "0123456789abcdef"
	newList = "fedcba9876543210"
)

// errorInterval is the time between two errors of the application that fails.
const errorInterval = 10 * time.Minute

// apps returns what the point of the host sums up.
func (r *reported) apps() *measure.HostApps {
	a := &measure.HostApps{Errors: r.errors, Attached: true}
	if r.unread {
		a.UnreadErrors = 1
	}
	if r.hanging {
		a.Hangs = 1
	}
	return a
}

// points returns the points of an interval.
func (r *reported) points(now time.Time) []measure.Point {
	const device = "mlx5_0"
	r.recorder.Recorded++
	if r.diskFails {
		r.recorder.Errors++
	}
	link := &measure.FabricPort{Device: "mlx5_4", Port: 2, OwnGroup: "g00", Verdict: verdict.VerdictOK, List: oldList, At: now}
	link.Pairs, link.PairsMet = 8, 8
	if r.ownLink {
		link.Verdict, link.Bad, link.PairsBad, link.VerdictAgeNS = verdict.VerdictOwnLink, true, 8, int64(now.Sub(r.bad))
	}
	if !r.otherHas.IsZero() {
		link.List = newList
	}
	points := []measure.Point{link}
	for i := range link.Pairs {
		p := &measure.FabricPeer{
			Device: link.Device, Port: link.Port, OwnGroup: link.OwnGroup, PeerHost: fmt.Sprintf("peer%d", i), PeerGroup: link.OwnGroup,
			Scope: pinglist.ScopeGroup, At: now,
		}
		switch {
		case r.newKey:
			p.Reason = verdict.ReasonKey
			link.PairsMet = 0
		case r.refused: // it is well again
			p.PeerDevice, p.State, p.Verdict = "mlx5_0", "active", verdict.VerdictOK
		default:
			continue
		}
		points = append(points, p)
	}
	r.refused = r.newKey
	if r.failing && !now.Before(r.next) {
		r.errors++
		r.next = now.Add(errorInterval)
		points = append(points, &measure.AppEvent{
			Device: device, App: "fails", Type: verbs.EventQPFatal, Count: 1, Total: r.errors, First: now, PID: 4711, Number: 284, At: now,
		})
	}
	if r.errors > 0 { // the series begins with the first event
		p := &measure.AppAsync{Device: device, App: "fails", Attached: true, At: now}
		p.Processes, p.Read, p.Types[verbs.EventQPFatal] = 1, r.errors, r.errors
		points = append(points, p)
	}
	if r.unread {
		p := &measure.AppAsync{Device: "mlx5_1", App: "waits", Attached: true, Unread: 1, At: now}
		p.Processes, p.Types[verbs.EventCommEst] = 1, 1 // the counters of its errors would be those of app-errors
		p.UnreadErrors = 1
		points = append(points, p)
	}
	if r.hanging {
		points = append(points, &measure.AppHang{
			Device: device, App: "hangs", Object: verbs.ScopeQP, Threads: 1, Age: int64(now.Sub(r.hangs)), Missing: 1, PID: 4711, TID: 4712,
			Number: 284, Proof: trace.ProofAsleep, At: now,
		})
	}
	return points
}
