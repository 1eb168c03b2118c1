package measure

import (
	"slices"
	"strconv"

	"rdma_events/internal/aggregate"
)

// bucket is one bound of a probe's histogram; below counts all wakes up to it.
type bucket struct {
	probe *Probe
	le    string
	below uint64
}

// buckets takes a probe's histogram apart; the view has one count per bound and
// one for +Inf, or none at all.
func buckets(v *Probe) []bucket {
	limits := aggregate.Bounds()
	if len(v.Histogram) != len(limits)+1 {
		return nil
	}
	all := make([]bucket, 0, len(v.Histogram))
	for i, limit := range limits {
		all = append(all, bucket{v, strconv.FormatInt(limit.Nanoseconds(), 10), v.Histogram[i]})
	}
	return append(all, bucket{v, "+Inf", v.Histogram[len(limits)]})
}

func histogramMetric() table[bucket] {
	return table[bucket]{
		Metric: Metric{
			Name:    "rdma_cq_probe_histogram",
			Emitted: everyInterval + ", with histogram = true",
			Description: "Wake-up latencies of a probe, cumulative over bounds and since the plugin started. The " +
				"bounds are fixed, so the histograms of many hosts can be added up.",
		},
		tags: slices.Concat(
			probeTags(func(b *bucket) *Probe { return b.probe }),
			[]tag[bucket]{newTag("le", "upper bound in ns: 5000, 10000, 20000, 50000 and so on to 500000000, and +Inf",
				func(b *bucket) string { return b.le })}),
		fields: []field[bucket]{
			counter("wake_bucket", "rounds whose event came within the bound",
				func(b *bucket) uint64 { return b.below }),
		},
	}
}
