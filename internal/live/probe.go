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

// probes turns what a monitor has gathered into records.
func (s *Screen) probes(views []measure.Probe, now time.Time) []record {
	if !s.cfg.Probes {
		return nil
	}
	s.follow(views)
	records := make([]record, 0, len(views))
	for i := range views {
		v := &views[i]
		if !v.HasOK || s.current[keyOf(v)] != v.Method {
			continue // not a round has ended, or it has been replaced
		}
		records = append(records, record{
			Time: now, Kind: kindProbe, Device: v.Device, Port: v.Port,
			Probe: &probe{
				Vector: v.Vector, Method: v.Method.String(), Rounds: v.Counts.Rounds, Successes: v.Counts.Successes,
				Buckets: buckets(v.Histogram), OK: v.OK, Status: v.Status,
				WakeNS: v.Wake.Mean, P50NS: v.WakeP.P50, P99NS: v.WakeP.P99,
			},
		})
	}
	return records
}

// probeKey is a place for probes, of which one method at a time is used.
type probeKey struct {
	device       string
	port, vector int
}

func keyOf(v *measure.Probe) probeKey { return probeKey{v.Device, v.Port, v.Vector} }

// follow finds out which method is used: that which had a round last.
func (s *Screen) follow(views []measure.Probe) {
	for i := range views {
		v := &views[i]
		if v.Wake.Count > 0 || s.current[keyOf(v)] == verbs.MethodNone {
			s.current[keyOf(v)] = v.Method
		}
	}
}

// buckets takes a cumulative histogram apart and leaves out the empty ends.
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

// line is the probe as people read it.
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

// duration is a time in ns with three digits, or to the second.
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
