package verbs

// The roles of ports.
const (
	RoleCompute    = "compute"
	RoleStorage    = "storage"
	RoleManagement = "management"
)

// ComparedPort holds the attributes of a port that matter for comparing its rate with other ports of the host.
type ComparedPort struct {
	BoardID         string
	LinkLayer       LinkLayer
	Role            string
	VirtualFunction bool
	Active          bool
	RateGbps        float64
}

// isComparable reports whether the port takes part in the comparison.
func (p *ComparedPort) isComparable() bool { return p.Active && p.BoardID != "" && p.RateGbps > 0 }

// isSimilarTo reports whether the rates of two ports can be compared: their adapters have the same type and the same role.
func (p *ComparedPort) isSimilarTo(q *ComparedPort) bool {
	return p.BoardID == q.BoardID && p.LinkLayer == q.LinkLayer && p.Role == q.Role && p.VirtualFunction == q.VirtualFunction
}

// ExpectedRates returns the rate in Gbit/s that each port of a host should have, judged by the other ports; 0 if they do not tell. A
// port is compared with the other active ports of the same board type, link layer and role. If at least two thirds of them are faster,
// the expected rate is the most frequent rate of the faster ports. With two or more other ports, more than half of all compared ports
// must be faster: with half and half, as with adapters for storage and for computing, it is unclear which rate is the right one.
func ExpectedRates(ports []ComparedPort) []float64 {
	expected := make([]float64, len(ports))
	for i := range ports {
		if ports[i].isComparable() {
			expected[i] = expectedRate(ports, i)
		}
	}
	return expected
}

func expectedRate(ports []ComparedPort, index int) float64 {
	others, faster := 0, 0
	counts := map[float64]int{} // number of faster ports by rate
	for i := range ports {
		q := &ports[i]
		if i == index || !q.isComparable() || !q.isSimilarTo(&ports[index]) {
			continue
		}
		others++
		if q.RateGbps > ports[index].RateGbps {
			faster++
			counts[q.RateGbps]++
		}
	}
	halves := others > 1 && 2*faster <= others+1
	if faster == 0 || 3*faster < 2*others || halves {
		return 0
	}
	most := 0.0
	for rate, n := range counts {
		if n > counts[most] || n == counts[most] && rate < most {
			most = rate
		}
	}
	return most
}
