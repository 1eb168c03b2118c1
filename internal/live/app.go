package live

import "rdma_events/internal/measure"

// look shows what is new of applications in the points of one Gather.
func (s *Screen) look(points []measure.Point) {
	for _, p := range points {
		switch p.(type) {
		case *measure.AppAsync, *measure.AppHang, *measure.Tracer:
			s.Emit(p)
		}
	}
}
