package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Histogram is a point of rdma_cq_probe_histogram. It has one line for each bound.
type Histogram struct {
	Device string
	verbs.ProbeKey
	Below []uint64 // rounds whose event came within each of aggregate.Bounds, and finally within any time
	Sum   int64    // ns, sum of the latencies of all rounds whose event came
	At    time.Time
}

// Key implements Point.
func (h *Histogram) Key() Key {
	return Key{Measurement: histogramTable.Name, Device: h.Device, Subject: h.Method.String(), Port: h.Port, Vector: h.Vector}
}

// Time implements Point.
func (h *Histogram) Time() time.Time { return h.At }

// Merge implements Point. The later point replaces this one.
func (h *Histogram) Merge(later Point) { *h = *later.(*Histogram) }

// Clone implements Point.
func (h *Histogram) Clone() Point { return clone(h) }

// Events implements Point.
func (*Histogram) Events() uint64 { return 0 }

// Lines implements Point.
func (h *Histogram) Lines(add func(Line)) {
	bounds := aggregate.Bounds()
	for i, below := range h.Below {
		le := inf
		if i < len(bounds) {
			le = strconv.FormatInt(bounds[i].Nanoseconds(), 10)
		}
		add(histogramTable.line(&bucket{h, le, below}))
	}
}

// inf is the value of the tag le without a bound.
const inf = "+Inf"

// bucket holds the values of one line of a Histogram.
type bucket struct {
	hist  *Histogram
	le    string
	below uint64
}

var histogramTable = table[bucket]{
	Metric: Metric{
		Name:    "rdma_cq_probe_histogram",
		Emitted: everyInterval + ", with histogram = true",
		Description: "Histogram of the wake-up latencies of a probe. Each count includes the counts of all smaller bounds, and counts " +
			"since the plugin started. The bounds are fixed, so a database can add up the histograms of many hosts.",
	},
	tags: slices.Concat(
		probeTags(func(b *bucket) (string, verbs.ProbeKey) { return b.hist.Device, b.hist.ProbeKey }),
		[]tag[bucket]{requiredTag("le", "upper bound in ns: 5000, 10000, 20000, 50000 and so on up to 500000000, and +Inf",
			func(b *bucket) string { return b.le })}),
	fields: []field[bucket]{
		counter("wake_bucket", "rounds whose event came within the bound",
			func(b *bucket) uint64 { return b.below }),
		markCumulative(optionalInt("wake_ns_sum", "ns", "sum of the latencies of these rounds; only with le = +Inf",
			func(b *bucket) (int64, bool) { return b.hist.Sum, b.le == inf })),
	},
}
