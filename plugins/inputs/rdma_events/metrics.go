package rdma_events

import (
	"strconv"
	"time"

	"rdma_events/internal/monitor"
)

// When a measurement is emitted.
const (
	everyInterval = "every interval"
	onChange      = "every interval and on change"
	asItHappens   = "when it happens"
)

// metrics is the one table of metrics: everything that is emitted comes out of
// it, and so do the documentation and what dashboards are checked against.
type metrics struct {
	async     measurement[monitor.AsyncView]
	event     measurement[monitor.EventPoint]
	port      measurement[monitor.PortView]
	change    measurement[monitor.ChangePoint]
	probe     measurement[monitor.ProbeView]
	histogram measurement[bucket]
	device    measurement[monitor.DeviceView]
	host      measurement[host]
	collector measurement[collector]
}

func newMetrics() *metrics {
	return &metrics{
		async: asyncMetric(), event: eventMetric(),
		port: portMetric(), change: changeMetric(),
		probe: probeMetric(), histogram: histogramMetric(),
		device: deviceMetric(), host: hostMetric(), collector: collectorMetric(),
	}
}

// Metrics returns a description of every measurement with all its tags and
// fields.
func Metrics() []Metric {
	m := newMetrics()
	return []Metric{
		m.async.describe(), m.event.describe(), m.port.describe(), m.change.describe(),
		m.probe.describe(), m.histogram.describe(), m.device.describe(), m.host.describe(),
		m.collector.describe(),
	}
}

// points returns what one interval emits.
func (m *metrics) points(s *monitor.Snapshot, own process, now time.Time) []point {
	var points []point
	for i := range s.Async {
		points = append(points, m.async.point(&s.Async[i], now))
	}
	for i := range s.Ports {
		points = append(points, m.port.point(&s.Ports[i], s.Ports[i].Time))
	}
	for i := range s.Probes {
		points = append(points, m.probe.point(&s.Probes[i], now))
		for _, b := range buckets(&s.Probes[i]) {
			points = append(points, m.histogram.point(&b, now))
		}
	}
	for i := range s.Devices {
		points = append(points, m.device.point(&s.Devices[i], s.Devices[i].Time))
	}
	if len(s.Devices) > 0 {
		h := sum(s)
		points = append(points, m.host.point(&h, now))
	}
	return append(points, m.collector.point(&collector{s.Collector, own}, now))
}

// number is a small integer as a tag value, "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// stat is the pair of fields of a Stat.
func stat[V any](name, what string, value func(*V) monitor.Stat) []field[V] {
	return []field[V]{
		maybe(name+"_ns_mean", "ns", what+", mean of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Mean, s.Count > 0
		}),
		maybe(name+"_ns_max", "ns", what+", greatest of the interval", func(v *V) (int64, bool) {
			s := value(v)
			return s.Max, s.Count > 0
		}),
	}
}

// percentiles is the triple of fields of Percentiles.
func percentiles[V any](name, what string, value func(*V) monitor.Percentiles) []field[V] {
	one := func(rank string, pick func(monitor.Percentiles) int64) field[V] {
		return maybe(name+"_ns_"+rank, "ns", what+", "+rank+" of the window", func(v *V) (int64, bool) {
			p := value(v)
			return pick(p), p.Count > 0
		})
	}
	return []field[V]{
		one("p50", func(p monitor.Percentiles) int64 { return p.P50 }),
		one("p90", func(p monitor.Percentiles) int64 { return p.P90 }),
		one("p99", func(p monitor.Percentiles) int64 { return p.P99 }),
	}
}
