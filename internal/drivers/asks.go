package drivers

import (
	"time"

	"rdma_events/internal/verbs"
)

// Asks is how often something makes each call.
type Asks map[Call]int

// PortReading is what one look at a port asks. A test of package verbs counts
// the calls of the code and compares.
func PortReading() Asks { return Asks{PortQuery: 1, LinkDowned: 1} }

// Round is what one good round of a probe asks. A test of package verbs counts
// the calls of the code and compares.
func Round(m verbs.Method) Asks {
	switch m {
	case verbs.MethodFlush:
		return Asks{CreateQP: 1, ModifyQP: 2, DestroyQP: 1} // a queue pair is used up by it
	case verbs.MethodUDSend:
		return Asks{CreateAH: 1, DestroyAH: 1} // where addresses may change
	}
	return Asks{}
}

// Pace is how often the plugin does what.
type Pace struct {
	State time.Duration // between two looks at a port; 0: only after events
	Probe time.Duration // between two rounds; 0: none
}

// PerMinute is how many commands one port and one completion vector cost a
// minute.
type PerMinute struct {
	State int // looks at the port
	Round map[verbs.Method]int
}

// PerMinute returns what a port of a device with these costs is asked.
func (p Pace) PerMinute(c Costs) PerMinute {
	m := PerMinute{State: times(p.State) * c.Of(PortReading()), Round: map[verbs.Method]int{}}
	for _, method := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
		m.Round[method] = times(p.Probe) * c.Of(Round(method))
	}
	return m
}

// times returns how often something happens a minute, rounded up.
func times(every time.Duration) int {
	if every <= 0 {
		return 0
	}
	return int((time.Minute + every - 1) / every)
}
