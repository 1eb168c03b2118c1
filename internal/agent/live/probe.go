package live

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/measure"
)

// probeRecords returns a record for each current probe in the points of an interval. It returns nil if probes are not
// shown.
func (s *Screen) probeRecords(points []measure.Point, now time.Time) []record {
	if !s.cfg.Probes {
		return nil
	}
	s.updateMethods(points)
	records := make([]record, 0, len(points))
	for _, p := range points {
		switch p := p.(type) {
		case *measure.Probe:
			if p.HasOK && s.methods[placeOf(p)] == p.Method {
				records = append(records, record{Record: timeline.Record{
					Time: now, Kind: timeline.KindProbe, Device: p.Device, Port: p.Port, Probe: timeline.NewProbe(p),
				}})
			}
		case *measure.Histogram:
			if n := len(records); n > 0 && records[n-1].ownsHistogram(p) {
				records[n-1].Probe.Buckets = timeline.Buckets(p.Below)
			}
		}
	}
	return records
}

// ownsHistogram reports whether h is the histogram of the probe in r. The histogram follows right after its probe.
func (r *record) ownsHistogram(h *measure.Histogram) bool {
	return r.Device == h.Device && r.Port == h.Port && r.Probe.Vector == h.Vector && r.Probe.Method == h.Method.String()
}

// probePlace identifies a completion vector of a port. One probe at a time runs there; its method may change.
type probePlace struct {
	device       string
	port, vector int
}

func placeOf(p *measure.Probe) probePlace { return probePlace{p.Device, p.Port, p.Vector} }

// updateMethods updates the current method of each place: the method of the last round.
func (s *Screen) updateMethods(points []measure.Point) {
	for p := range measure.OfType[*measure.Probe](points) {
		if p.Wake.Count > 0 || s.methods[placeOf(p)] == verbs.MethodNone {
			s.methods[placeOf(p)] = p.Method
		}
	}
}
