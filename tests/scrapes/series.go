package scrapes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"rdma_events/tests/prom"
)

// Series are the values that scrapes at a fixed interval found, by series.
type Series struct {
	first    time.Time
	interval time.Duration
	values   map[string]map[int]float64
	last     int
}

// NewSeries returns the Series of scrapes of which the first is at a time.
func NewSeries(first time.Time, interval time.Duration) *Series {
	return &Series{first: first, interval: interval, values: map[string]map[int]float64{}}
}

// Add adds what a scrape found.
func (s *Series) Add(at time.Time, found []*dto.MetricFamily) {
	i := int(at.Sub(s.first) / s.interval)
	s.last = max(s.last, i)
	for _, family := range found {
		for _, m := range family.GetMetric() {
			name := nameOf(family.GetName(), m)
			if s.values[name] == nil {
				s.values[name] = map[int]float64{}
			}
			s.values[name][i] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
}

func nameOf(family string, m *dto.Metric) string {
	var b strings.Builder
	b.WriteString(family + "{")
	for i, l := range m.GetLabel() {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", l.GetName(), l.GetValue())
	}
	b.WriteByte('}')
	return b.String()
}

// Notation returns the series in promtool's notation, with a mark of staleness where a series ends.
func (s *Series) Notation() []prom.UnitSeries {
	var all []prom.UnitSeries
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		values := s.values[name]
		var b strings.Builder
		var before string
		repeats := 0
		flush := func() {
			if before != "" {
				fmt.Fprintf(&b, "%sx%d ", before, repeats)
			}
		}
		for i := range s.last + 1 {
			token := "_"
			if v, ok := values[i]; ok {
				token = strconv.FormatFloat(v, 'f', -1, 64)
			} else if _, ended := values[i-1]; ended {
				token = "stale"
			}
			if token == before && token != "stale" {
				repeats++
				continue
			}
			flush()
			before, repeats = token, 0
		}
		flush()
		all = append(all, prom.UnitSeries{Series: name, Values: strings.ReplaceAll(strings.TrimSpace(b.String()), "stalex0", "stale")})
	}
	return all
}
