package live

import "rdma_events/internal/telemetry/measure"

// emitApplications shows changes of applications in the points of an interval. All other changes are emitted when they
// happen.
func (s *Screen) emitApplications(points []measure.Point) {
	for _, p := range points {
		if s.apps.Handles(p) {
			s.Emit(p)
		}
	}
}
