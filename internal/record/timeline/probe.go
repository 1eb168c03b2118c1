package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// Probe holds the measurements of a probe.
type Probe struct {
	Vector    int      `json:"vector"`
	Method    string   `json:"method"`
	Rounds    uint64   `json:"rounds"` // since the plugin started, like Successes and Lost
	Successes uint64   `json:"successes"`
	Lost      *Lost    `json:"lost,omitempty"`
	Buckets   []Bucket `json:"wake_buckets"` // not cumulative, without empty buckets at both ends
	OK        bool     `json:"ok"`           // the last round succeeded
	Status    string   `json:"status,omitempty"`
	WakeNS    int64    `json:"wake_ns_mean"` // of the interval; 0: no round ended in it
	P50NS     int64    `json:"wake_ns_p50"`  // of the window
	P99NS     int64    `json:"wake_ns_p99"`
}

// Lost counts the rounds that failed since the plugin started.
type Lost struct {
	Events      uint64 `json:"events"`
	Completions uint64 `json:"completions"`
	Errors      uint64 `json:"errors"`
}

// losses remembers the counts in the last record of each probe.
type losses map[probeKey]Lost

type probeKey struct {
	device string
	verbs.ProbeKey
}

// registerLosses is the Part for failed rounds of probes. Only the recorder uses it, and its points come only once per interval.
func registerLosses(c *Changes) { registerRecord(c, losses{}.probeRecord) }

func (l losses) probeRecord(p *measure.Probe) (Record, bool) {
	key := probeKey{p.Device, p.ProbeKey}
	lost := Lost{Events: p.Counts.LostEvents, Completions: p.Counts.LostCompletions, Errors: p.Counts.Errors}
	if lost == l[key] {
		return Record{}, false
	}
	l[key] = lost
	probe := NewProbe(p)
	probe.Lost = &lost
	return Record{Time: p.At, Kind: KindProbe, Device: p.Device, Port: p.Port, Probe: probe}, true
}

// Bucket counts the wake-ups whose latency is at most Le and above the bound of the previous bucket.
type Bucket struct {
	Le    string `json:"le"` // such as "50us" or "+Inf"
	Count uint64 `json:"count"`
}

// NewProbe returns the Probe of a point, without buckets.
func NewProbe(p *measure.Probe) *Probe {
	return &Probe{
		Vector: p.Vector, Method: p.Method.String(), Rounds: p.Counts.Rounds, Successes: p.Counts.Successes,
		Buckets: []Bucket{}, OK: p.OK, Status: p.Status,
		WakeNS: p.Wake.Mean, P50NS: p.WakeP.P50, P99NS: p.WakeP.P99,
	}
}

// Buckets converts a cumulative histogram to single counts, without the empty buckets at
// both ends.
func Buckets(cumulative []uint64) []Bucket {
	bounds := aggregate.Bounds()
	all := make([]Bucket, len(cumulative))
	var below uint64
	for i, n := range cumulative {
		all[i] = Bucket{"+Inf", n - below}
		if i < len(bounds) {
			all[i].Le = strings.ReplaceAll(bounds[i].String(), "µ", "u")
		}
		below = n
	}
	filled := func(b Bucket) bool { return b.Count > 0 }
	first := slices.IndexFunc(all, filled)
	if first < 0 {
		return []Bucket{}
	}
	last := len(all) - 1
	for !filled(all[last]) {
		last--
	}
	return all[first : last+1]
}

// Line returns the probe as text. ascii replaces block characters.
func (p *Probe) Line(ascii bool) string {
	wake := "-"
	if p.WakeNS > 0 {
		wake = Duration(p.WakeNS)
	}
	text := fmt.Sprintf("%-8s v%d wake %-7s p50 %-7s p99 %-7s %s", p.Method, p.Vector, wake,
		Duration(p.P50NS), Duration(p.P99NS), p.chart(ascii))
	if n := p.Rounds - min(p.Rounds, p.Successes); n > 0 {
		text += fmt.Sprintf("  %d of %d failed: %s", n, p.Rounds, p.Status)
	}
	return text
}

// chart draws the histogram, one column for each bucket.
func (p *Probe) chart(ascii bool) string {
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

// Duration formats a time in ns with three digits. From a minute on, it rounds to the second.
func Duration(ns int64) string {
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
