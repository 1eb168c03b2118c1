package pairs

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// latencies are those of a port or of a group. The times of what is added are CLOCK_MONOTONIC ns.
type latencies struct {
	echo, responder, write *aggregate.Window
}

func newLatencies(span time.Duration) latencies {
	return latencies{aggregate.NewWindow(span), aggregate.NewWindow(span), aggregate.NewWindow(span)}
}

func (l *latencies) view(now int64, tmp *aggregate.Scratch) measure.FabricLatencies {
	return measure.FabricLatencies{
		EchoP: l.echo.Percentiles(now, tmp), EchoMax: l.echo.Max(now), ResponderP: l.responder.Percentiles(now, tmp),
		WriteP: l.write.Percentiles(now, tmp), WriteMax: l.write.Max(now),
	}
}

// wall returns the wall time of a CLOCK_MONOTONIC stamp.
func (k *Keeper) wall(mono int64) time.Time { return time.Unix(0, mono+k.offset) }

// show emits the pair if what is said of it is not what was said last.
func (pr *pair) show(at int64) {
	p := pr.point(at)
	now := shown{p.Verdict, p.Reason}
	if now == pr.shown || now.reason == verdict.ReasonStarting { // it soon says more
		return
	}
	pr.shown = now
	if pr.port.isUsed() {
		pr.port.k.cfg.Emit(p)
	}
}

// isWell reports whether nothing is to be said of the pair every interval. Nothing is said of a peer without a device for the own port, nor
// while the own port has no Fabric.
func (pr *pair) isWell() bool {
	if pr.judge == nil {
		return pr.reason == verdict.ReasonOwnPort || pr.reason == verdict.ReasonUnsupported
	}
	v, _ := pr.judge.Verdict()
	return v == verdict.VerdictOK
}

// noteGathered reports whether an interval includes a point of the pair, and remembers it: an interval does while the pair is not well, and
// once more after it has recovered. While the own port is down, no interval does.
//
// The emitter may put the point of an interval behind a change that show emitted meanwhile. Without one more point, the bad verdict would be
// the last of its series.
func (pr *pair) noteGathered() bool {
	if pr.port.down() {
		return false
	}
	before := pr.gathered
	pr.gathered = !pr.isWell()
	return pr.gathered || before
}

func (pr *pair) point(at int64) *measure.FabricPeer {
	k, p := pr.port.k, pr.port
	out := &measure.FabricPeer{
		Device: p.device, Port: p.number, OwnGroup: k.list.own.Group, PeerHost: pr.host.Name, PeerDevice: pr.remote.Device,
		PeerGroup: pr.host.Group, Scope: pr.host.Scope, Path: -1, Probes: pr.tracker.Counts(),
		WriteNSP50: pr.write.Percentiles(at, &k.scratch).P50, Reason: pr.reason, AgeNS: max(0, at-pr.unmet), At: k.wall(at),
	}
	if pr.judge == nil {
		return out
	}
	v, since := pr.judge.Verdict()
	out.State, out.AgeNS, out.Path = pr.said.String(), max(0, at-since), pr.judge.Path()
	out.Verdict, out.Bad, out.Direction = v, v.IsNetwork(), v.Direction()
	if v.IsUnanswered() && pr.sample.Silent > 0 {
		out.SilentNS = max(0, at-pr.sample.SilentSince)
	}
	if v.IsNetwork() && p.verdict.verdict == verdict.VerdictOwnLink {
		out.Verdict, out.Bad = verdict.VerdictOwnLink, false
	}
	return out
}

func (p *port) point(at int64) *measure.FabricPort {
	k := p.k
	out := &measure.FabricPort{
		Device: p.device, Port: p.number, OwnGroup: k.list.own.Group, Role: p.role,
		FabricCounts: measure.FabricCounts{Counts: p.gone}, FabricLatencies: p.view(at, &k.scratch),
		Verdict: p.verdict.verdict, Bad: p.verdict.verdict == verdict.VerdictOwnLink, VerdictAgeNS: max(0, at-p.verdict.since),
		List: k.list.Digest(), FabricLane: p.lane(), At: k.wall(at),
	}
	for _, pr := range p.pairs {
		if pr != nil {
			c := pr.counts()
			out.Add(&c)
		}
	}
	return out
}

// Points returns the points of an interval: the ports, the groups, and the pairs that are not well, or were not in the interval before.
func (k *Keeper) Points(at time.Time) []measure.Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.list.ok {
		return nil
	}
	now := k.cfg.Mono()
	var points, pairs []measure.Point
	sums := map[groupKey]*measure.Fabric{}
	for key, g := range k.groups {
		sums[key] = &measure.Fabric{
			OwnGroup: k.list.own.Group, PeerGroup: key.group, Scope: key.scope, FabricCounts: measure.FabricCounts{Counts: g.gone},
			FabricLatencies: g.view(now, &k.scratch), At: at,
		}
	}
	for _, p := range k.ports {
		used := p.isUsed()
		if used {
			point := p.point(now)
			point.At = at
			points = append(points, point)
		}
		for _, pr := range p.pairs {
			if pr == nil {
				continue
			}
			// The pairs of a device that is gone are counted here until they are among those that are no more.
			c := pr.counts()
			sums[groupKey{pr.host.Group, pr.host.Scope}].Add(&c)
			if used && pr.noteGathered() {
				one := pr.point(now)
				one.At = at
				pairs = append(pairs, one)
			}
		}
	}
	for _, key := range sorted(sums) {
		points = append(points, sums[key])
	}
	return append(points, pairs...)
}

func sorted(sums map[groupKey]*measure.Fabric) []groupKey {
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

// View is one pair as a person looks at it.
type View struct {
	measure.FabricPeer
	EchoP, WriteP aggregate.Percentiles // of the window, in ns
	OwnVerdict    verdict.Verdict       // of the port
}

// Views returns all pairs of all ports, in the order of device, port and host.
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
					FabricPeer: *pr.point(now), EchoP: pr.echoes.Percentiles(now, &k.scratch),
					WriteP: pr.write.Percentiles(now, &k.scratch), OwnVerdict: p.verdict.verdict,
				})
			}
		}
		slices.SortFunc(all[from:], func(a, b View) int { return strings.Compare(a.PeerHost, b.PeerHost) })
	}
	return all
}
