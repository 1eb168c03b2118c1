package measure

import (
	"strconv"
	"time"
)

// When a measurement is emitted.
const (
	everyInterval = "every interval"
	onChange      = "every interval and on change"
	asItHappens   = "when it happens"
)

// Tables is the one table of metrics: everything that is emitted comes out of
// it, and so do the documentation and what dashboards are checked against.
type Tables struct {
	async     table[Async]
	event     table[Event]
	port      table[Port]
	change    table[Change]
	probe     table[Probe]
	histogram table[bucket]
	device    table[Device]
	host      table[host]
	collector table[Collector]
}

// NewTables returns the Tables.
func NewTables() *Tables {
	return &Tables{
		async: asyncMetric(), event: eventMetric(),
		port: portMetric(), change: changeMetric(),
		probe: probeMetric(), histogram: histogramMetric(),
		device: deviceMetric(), host: hostMetric(), collector: collectorMetric(),
	}
}

// All returns a description of every measurement with all its tags and
// fields.
func All() []Metric {
	m := NewTables()
	return []Metric{
		m.async.describe(), m.event.describe(), m.port.describe(), m.change.describe(),
		m.probe.describe(), m.histogram.describe(), m.device.describe(), m.host.describe(),
		m.collector.describe(),
	}
}

// EventLine is the line of an event.
func (m *Tables) EventLine(v *Event) Line { return m.event.point(v, v.Time) }

// ChangeLine is the line of a change.
func (m *Tables) ChangeLine(v *Change) Line { return m.change.point(v, v.Time) }

// PortLine is the line of a port.
func (m *Tables) PortLine(v *Port) Line { return m.port.point(v, v.Time) }

// DeviceLine is the line of a device.
func (m *Tables) DeviceLine(v *Device) Line { return m.device.point(v, v.Time) }

// Lines returns what one interval emits.
func (m *Tables) Lines(s *Snapshot, own Own, now time.Time) []Line {
	var points []Line
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
	return append(points, m.collector.point(&Collector{s.Collector, own}, now))
}

// number is a small integer as a tag value, "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// stat is the pair of fields of a Stat.
func stat[V any](name, what string, value func(*V) Stat) []field[V] {
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
func percentiles[V any](name, what string, value func(*V) Percentiles) []field[V] {
	one := func(rank string, pick func(Percentiles) int64) field[V] {
		return maybe(name+"_ns_"+rank, "ns", what+", "+rank+" of the window", func(v *V) (int64, bool) {
			p := value(v)
			return pick(p), p.Count > 0
		})
	}
	return []field[V]{
		one("p50", func(p Percentiles) int64 { return p.P50 }),
		one("p90", func(p Percentiles) int64 { return p.P90 }),
		one("p99", func(p Percentiles) int64 { return p.P99 }),
	}
}
