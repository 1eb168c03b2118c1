package live

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/aggregate"
	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

// probes returns a record for each current probe in the points of one Gather, nil unless
// probes are to be shown.
func (s *Screen) probes(points []measure.Point, now time.Time) []record {
	if !s.cfg.Probes {
		return nil
	}
	s.follow(points)
	records := make([]record, 0, len(points))
	for _, p := range points {
		switch p := p.(type) {
		case *measure.Probe:
			if p.HasOK && s.current[placeOf(p)] == p.Method {
				records = append(records, record{Time: now, Kind: kindProbe, Device: p.Device, Port: p.Port, Probe: newProbe(p)})
			}
		case *measure.Histogram:
			if n := len(records); n > 0 && records[n-1].isOf(p) {
				records[n-1].Probe.Buckets = buckets(p.Below)
			}
		}
	}
	return records
}

func newProbe(p *measure.Probe) *probe {
	return &probe{
		Vector: p.Vector, Method: p.Method.String(), Rounds: p.Counts.Rounds, Successes: p.Counts.Successes,
		Buckets: []bucket{}, OK: p.OK, Status: p.Status,
		WakeNS: p.Wake.Mean, P50NS: p.WakeP.P50, P99NS: p.WakeP.P99,
	}
}

// isOf reports whether h is the histogram of r. It comes right after the probe of r.
func (r *record) isOf(h *measure.Histogram) bool {
	return r.Device == h.Device && r.Port == h.Port && r.Probe.Vector == h.Vector && r.Probe.Method == h.Method.String()
}

// place identifies a completion vector of a port. One probe at a time runs there, and its
// method may change.
type place struct {
	device       string
	port, vector int
}

func placeOf(p *measure.Probe) place { return place{p.Device, p.Port, p.Vector} }

// follow updates the current method of each place: the method that had the last round.
func (s *Screen) follow(points []measure.Point) {
	for _, point := range points {
		p, ok := point.(*measure.Probe)
		if ok && (p.Wake.Count > 0 || s.current[placeOf(p)] == verbs.MethodNone) {
			s.current[placeOf(p)] = p.Method
		}
	}
}

// buckets returns the single counts of a cumulative histogram, without the empty buckets
// at both ends.
func buckets(cumulative []uint64) []bucket {
	bounds := aggregate.Bounds()
	all := make([]bucket, len(cumulative))
	var below uint64
	for i, n := range cumulative {
		all[i] = bucket{"+Inf", n - below}
		if i < len(bounds) {
			all[i].Le = strings.ReplaceAll(bounds[i].String(), "µ", "u")
		}
		below = n
	}
	filled := func(b bucket) bool { return b.Count > 0 }
	first := slices.IndexFunc(all, filled)
	if first < 0 {
		return []bucket{}
	}
	last := len(all) - 1
	for !filled(all[last]) {
		last--
	}
	return all[first : last+1]
}

// line returns the probe as text.
func (p *probe) line(ascii bool) string {
	wake := "-"
	if p.WakeNS > 0 {
		wake = duration(p.WakeNS)
	}
	text := fmt.Sprintf("%-8s v%d wake %-7s p50 %-7s p99 %-7s %s", p.Method, p.Vector, wake,
		duration(p.P50NS), duration(p.P99NS), p.chart(ascii))
	if n := p.Rounds - min(p.Rounds, p.Successes); n > 0 {
		text += fmt.Sprintf("  %d of %d failed: %s", n, p.Rounds, p.Status)
	}
	return text
}

// chart draws the histogram, one column for each bucket.
func (p *probe) chart(ascii bool) string {
	if len(p.Buckets) == 0 {
		return ""
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		levels = []rune(".:-=+*#@")
	}
	var most uint64
	for _, b := range p.Buckets {
		most = max(most, b.Count)
	}
	var bars strings.Builder
	for _, b := range p.Buckets {
		bar := ' '
		if b.Count > 0 {
			bar = levels[b.Count*uint64(len(levels)-1)/most]
		}
		bars.WriteRune(bar)
	}
	return fmt.Sprintf("[%s] %s..%s", bars.String(), p.Buckets[0].Le, p.Buckets[len(p.Buckets)-1].Le)
}

// duration formats a time in ns with three digits, or to the second from a minute on.
func duration(ns int64) string {
	d := time.Duration(ns)
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	digit := time.Duration(1)
	for d >= 1000*digit {
		digit *= 10
	}
	return d.Round(digit).String()
}
