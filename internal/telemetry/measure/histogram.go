package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Histogram is a point of rdma_cq_probe_histogram, which has a line for each bound.
type Histogram struct {
	Device string
	verbs.ProbeKey
	Below []uint64 // rounds whose event came within each of aggregate.Bounds, and last within any time
	At    time.Time
}

// Key implements Point.
func (h *Histogram) Key() Key {
	return Key{Measurement: histograms.Name, Device: h.Device, Of: h.Method.String(), Port: h.Port, Vector: h.Vector}
}

// Time implements Point.
func (h *Histogram) Time() time.Time { return h.At }

// Merge implements Point: the later one replaces this.
func (h *Histogram) Merge(later Point) { *h = *later.(*Histogram) }

// Clone implements Point.
func (h *Histogram) Clone() Point { return clone(h) }

// Events implements Point.
func (*Histogram) Events() uint64 { return 0 }

// Lines implements Point.
func (h *Histogram) Lines(add func(Line)) {
	bounds := aggregate.Bounds()
	for i, below := range h.Below {
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatInt(bounds[i].Nanoseconds(), 10)
		}
		add(histograms.line(&bucket{h, le, below}))
	}
}

// bucket holds the values of one line.
type bucket struct {
	of    *Histogram
	le    string
	below uint64
}

var histograms = table[bucket]{
	Metric: Metric{
		Name:    "rdma_cq_probe_histogram",
		Emitted: everyInterval + ", with histogram = true",
		Description: "Wake-up latencies of a probe, cumulative over bounds and since the plugin started. The " +
			"bounds are fixed, so the histograms of many hosts can be added up.",
	},
	tags: slices.Concat(
		probeTags(func(b *bucket) (string, verbs.ProbeKey) { return b.of.Device, b.of.ProbeKey }),
		[]tag[bucket]{newTag("le", "upper bound in ns: 5000, 10000, 20000, 50000 and so on to 500000000, and +Inf",
			func(b *bucket) string { return b.le })}),
	fields: []field[bucket]{
		counter("wake_bucket", "rounds whose event came within the bound",
			func(b *bucket) uint64 { return b.below }),
	},
}
