package measure

import "iter"

// Interval collects the points of one interval. Each part of the agent adds its points.
type Interval struct {
	Points []Point
	Host   *Host      // one of Points, with the sums over them; nil: the host has no device, and none is expected
	Own    *Collector // the agent's own point, which is not in Points
}

// Add adds points, and adds their values to the sums of the host.
func (i *Interval) Add(points ...Point) {
	i.Points = append(i.Points, points...)
	if i.Host == nil {
		return
	}
	for _, p := range points {
		i.Host.Add(p)
	}
}

// OfType returns the points of type P, in their order.
func OfType[P Point](points []Point) iter.Seq[P] {
	return func(yield func(P) bool) {
		for _, p := range points {
			if p, ok := p.(P); ok && !yield(p) {
				return
			}
		}
	}
}
