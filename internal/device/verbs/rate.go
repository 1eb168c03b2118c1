package verbs

// The roles of ports.
const (
	RoleCompute    = "compute"
	RoleStorage    = "storage"
	RoleManagement = "management"
)

// ComparedPort has the attributes of a port by which its rate is compared with those of the other ports of the host.
type ComparedPort struct {
	BoardID         string
	LinkLayer       LinkLayer
	Role            string
	VirtualFunction bool
	Active          bool
	RateGbps        float64
}

// comparable reports whether the port takes part in the comparison.
func (p *ComparedPort) comparable() bool { return p.Active && p.BoardID != "" && p.RateGbps > 0 }

// isLike reports whether the rates of two ports can be compared: the adapters are of the same type, and do the same.
func (p *ComparedPort) isLike(q *ComparedPort) bool {
	return p.BoardID == q.BoardID && p.LinkLayer == q.LinkLayer && p.Role == q.Role && p.VirtualFunction == q.VirtualFunction
}

// ExpectedRates returns the rate in Gbit/s that each port of a host should have, as far as the other ports show it; 0 if they do not. A
// port is compared with the other active ports of the same board type, link layer and role. If at least two thirds of them are faster, it
// should have the rate that most of the faster ones have. Of four ports or more at least more than half have to be faster: where half
// of them are, as with adapters for storage and for computing, nothing tells which are as they should be.
func ExpectedRates(ports []ComparedPort) []float64 {
	expected := make([]float64, len(ports))
	for i := range ports {
		if ports[i].comparable() {
			expected[i] = expectedRate(ports, i)
		}
	}
	return expected
}

func expectedRate(ports []ComparedPort, of int) float64 {
	others, faster := 0, 0
	counts := map[float64]int{} // of the faster ones
	for i := range ports {
		q := &ports[i]
		if i == of || !q.comparable() || !q.isLike(&ports[of]) {
			continue
		}
		others++
		if q.RateGbps > ports[of].RateGbps {
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
