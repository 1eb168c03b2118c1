package live

import "rdma_events/internal/telemetry/measure"

// look shows what is new of applications in the points of one Gather. Those of all else come when they happen.
func (s *Screen) look(points []measure.Point) {
	for _, p := range points {
		if s.apps.Handles(p) {
			s.Emit(p)
		}
	}
}
