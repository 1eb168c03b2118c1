package drivers

import (
	"time"

	"rdma_events/internal/verbs"
)

// Asks is how often an operation makes each call.
type Asks map[Call]int

// PortReading returns the calls of one port query. A test of package native counts the
// calls of the code and compares.
func PortReading() Asks { return Asks{PortQuery: 1, LinkDowned: 1} }

// Round returns the calls of one successful round of a probe. A test of package native
// counts the calls of the code and compares.
func Round(m verbs.Method) Asks {
	switch m {
	case verbs.MethodFlush:
		return Asks{CreateQP: 1, ModifyQP: 2, DestroyQP: 1} // each round uses up a queue pair
	case verbs.MethodUDSend:
		return Asks{CreateAH: 1, DestroyAH: 1} // where addresses may change
	}
	return Asks{}
}

// Pace is how often the plugin queries a port and runs a round.
type Pace struct {
	State time.Duration // between two queries of a port; 0: only after events
	Probe time.Duration // between two rounds; 0: none
}

// PerMinute is how many commands per minute one port and one completion vector cost.
type PerMinute struct {
	State int // commands for queries of the port
	Round map[verbs.Method]int
}

// PerMinute returns the commands per minute for one port of a device with these costs.
func (p Pace) PerMinute(c Costs) PerMinute {
	m := PerMinute{State: times(p.State) * c.Of(PortReading()), Round: map[verbs.Method]int{}}
	for _, method := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
		m.Round[method] = times(p.Probe) * c.Of(Round(method))
	}
	return m
}

// times returns how often something happens per minute, rounded up.
func times(every time.Duration) int {
	if every <= 0 {
		return 0
	}
	return int((time.Minute + every - 1) / every)
}
