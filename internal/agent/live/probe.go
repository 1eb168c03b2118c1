package live

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/measure"
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
				records = append(records, record{Record: timeline.Record{
					Time: now, Kind: timeline.KindProbe, Device: p.Device, Port: p.Port, Probe: timeline.NewProbe(p),
				}})
			}
		case *measure.Histogram:
			if n := len(records); n > 0 && records[n-1].isOf(p) {
				records[n-1].Probe.Buckets = timeline.Buckets(p.Below)
			}
		}
	}
	return records
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
	for p := range measure.OfType[*measure.Probe](points) {
		if p.Wake.Count > 0 || s.current[placeOf(p)] == verbs.MethodNone {
			s.current[placeOf(p)] = p.Method
		}
	}
}
