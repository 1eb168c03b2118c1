package pairs

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// latencies holds the latencies of a port or group. Samples are added with CLOCK_MONOTONIC times in ns.
type latencies struct {
	echo, responder, write *aggregate.Window
}

func newLatencies(span time.Duration) latencies {
	return latencies{aggregate.NewWindow(span), aggregate.NewWindow(span), aggregate.NewWindow(span)}
}

func (l *latencies) summarize(now int64, tmp *aggregate.Scratch) measure.FabricLatencies {
	return measure.FabricLatencies{
		EchoP: l.echo.Percentiles(now, tmp), EchoMax: l.echo.Max(now), ResponderP: l.responder.Percentiles(now, tmp),
		WriteP: l.write.Percentiles(now, tmp), WriteMax: l.write.Max(now),
	}
}

// wallTime converts a CLOCK_MONOTONIC time in ns to wall time.
func (k *Keeper) wallTime(mono int64) time.Time { return time.Unix(0, mono+k.offset) }

// stamp makes the times of a series' points increase in the order in which the points are made. The point of a changed verdict has the time of
// the facts that changed it. If an interval was gathered after these facts and before they arrived, its point has a later time, although
// its counts are older.
type stamp struct{ last int64 }

// nextTime returns the time of the next point: at, or later. All times are CLOCK_MONOTONIC ns.
func (s *stamp) nextTime(at int64) int64 {
	s.last = max(at, s.last+1)
	return s.last
}

// emitIfChanged emits the pair when its verdict or reason has changed.
func (pr *pair) emitIfChanged(at int64) {
	p := pr.newPoint(at)
	now := emittedState{p.Verdict, p.Reason}
	if now == pr.emitted || now.reason == verdict.ReasonStarting { // a final reason or a verdict follows soon
		return
	}
	pr.emitted = now
	if pr.port.isUsed() {
		p.At = pr.port.k.wallTime(pr.stamp.nextTime(at))
		pr.port.k.cfg.Emit(p)
	}
}

// isQuiet reports whether the pair needs no point in every interval: its verdict is ok, or it is not connected because the peer has no
// matching device or this host's port has no Fabric.
func (pr *pair) isQuiet() bool {
	if pr.judge == nil {
		return pr.reason == verdict.ReasonOwnPort || pr.reason == verdict.ReasonUnsupported
	}
	v, _ := pr.judge.Verdict()
	return v == verdict.VerdictOK
}

// updateInInterval reports whether the current interval includes a point of the pair. It does while the pair is not quiet, and once more
// after the pair has recovered. While this host's port is down, no interval does.
//
// The emitter may write the point of an interval after a change that emitIfChanged emitted meanwhile. Without the additional point, the
// series could end with a bad verdict.
func (pr *pair) updateInInterval() bool {
	if pr.port.isDown() {
		return false
	}
	before := pr.inLastInterval
	pr.inLastInterval = !pr.isQuiet()
	return pr.inLastInterval || before
}

// newPoint returns a point of the pair's present state without a time.
func (pr *pair) newPoint(at int64) *measure.FabricPeer {
	k, p := pr.port.k, pr.port
	out := &measure.FabricPeer{
		Device: p.device, Port: p.number, OwnGroup: k.ownList.own.Group, PeerHost: pr.host.Name, PeerDevice: pr.remote.Device,
		PeerGroup: pr.host.Group, Scope: pr.host.Scope, Path: -1, Probes: pr.tracker.Counts(),
		WriteNSP50: pr.write.Percentiles(at, &k.scratch).P50, Reason: pr.reason, AgeNS: max(0, at-pr.disconnectedSince),
	}
	if pr.judge == nil {
		return out
	}
	v, since := pr.judge.Verdict()
	out.State, out.AgeNS, out.Path = pr.peerState.String(), max(0, at-since), pr.judge.Path()
	out.Verdict, out.Bad, out.Direction = v, v.IsNetwork(), v.Direction()
	if v.IsUnanswered() && pr.sample.Silent > 0 {
		out.SilentNS = max(0, at-pr.sample.SilentSince)
	}
	if v.IsNetwork() && p.verdict.verdict == verdict.VerdictOwnLink {
		out.Verdict, out.Bad = verdict.VerdictOwnLink, false
	}
	return out
}

// newPoint returns a point of the port's present state without a time.
func (p *port) newPoint(at int64) *measure.FabricPort {
	k := p.k
	out := &measure.FabricPort{
		Device: p.device, Port: p.number, OwnGroup: k.ownList.own.Group, Role: p.role,
		FabricCounts: measure.FabricCounts{Counts: p.removedPairs}, FabricLatencies: p.summarize(at, &k.scratch),
		Verdict: p.verdict.verdict, Bad: p.verdict.verdict == verdict.VerdictOwnLink, VerdictAgeNS: max(0, at-p.verdict.since),
		List: k.ownList.Digest(), FabricProberCounts: p.workerCounts(),
	}
	for _, pr := range p.pairs {
		if pr != nil {
			c := pr.currentCounts()
			out.Add(&c)
		}
	}
	return out
}

// Points returns the points of an interval: all ports, all groups, and the pairs that are not quiet or were not in the previous interval.
func (k *Keeper) Points(at time.Time) []measure.Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ownList.ok {
		return nil
	}
	now := k.cfg.Mono()
	var points, pairs []measure.Point
	sums := map[groupKey]*measure.Fabric{}
	for key, g := range k.groups {
		sums[key] = &measure.Fabric{
			OwnGroup: k.ownList.own.Group, PeerGroup: key.group, Scope: key.scope, FabricCounts: measure.FabricCounts{Counts: g.removedPairs},
			FabricLatencies: g.summarize(now, &k.scratch), At: at,
		}
	}
	for _, p := range k.ports {
		used := p.isUsed()
		if used {
			point := p.newPoint(now)
			point.At = at
			p.stamp.nextTime(now)
			points = append(points, point)
		}
		for _, pr := range p.pairs {
			if pr == nil {
				continue
			}
			// Pairs of a removed device are counted here until they are removed as well.
			c := pr.currentCounts()
			sums[groupKey{pr.host.Group, pr.host.Scope}].Add(&c)
			if used && pr.updateInInterval() {
				one := pr.newPoint(now)
				one.At = at
				pr.stamp.nextTime(now)
				pairs = append(pairs, one)
			}
		}
	}
	for _, key := range sortedKeys(sums) {
		points = append(points, sums[key])
	}
	return append(points, pairs...)
}

func sortedKeys(sums map[groupKey]*measure.Fabric) []groupKey {
	keys := make([]groupKey, 0, len(sums))
	for key := range sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		if c := strings.Compare(a.group, b.group); c != 0 {
			return c
		}
		return strings.Compare(string(a.scope), string(b.scope))
	})
	return keys
}

// View describes one pair for interactive output.
type View struct {
	measure.FabricPeer
	EchoP, WriteP aggregate.Percentiles // of the window, in ns
	OwnVerdict    verdict.Verdict       // of this host's port
}

// Views returns all pairs of all ports, sorted by device, port and host.
func (k *Keeper) Views() []View {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Mono()
	var all []View
	for _, p := range k.ports {
		if !p.isUsed() {
			continue
		}
		from := len(all)
		for _, pr := range p.pairs {
			if pr != nil {
				all = append(all, View{
					FabricPeer: *pr.newPoint(now), EchoP: pr.echoes.Percentiles(now, &k.scratch),
					WriteP: pr.write.Percentiles(now, &k.scratch), OwnVerdict: p.verdict.verdict,
				})
			}
		}
		slices.SortFunc(all[from:], func(a, b View) int { return strings.Compare(a.PeerHost, b.PeerHost) })
	}
	return all
}
