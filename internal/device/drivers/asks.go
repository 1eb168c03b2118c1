package drivers

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Asks is how often an operation makes each call.
type Asks map[Call]int

// PortReading returns the calls of one port query, without PortSpeed, which most libraries and drivers cannot answer. A test of package native counts the
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

// Snapshot returns the calls of one snapshot of a port, for which netlink is asked for all
// hw_counters at once. Where the kernel cannot answer that, their files may cost more.
func (d Driver) Snapshot(e verbs.Ethtool) Asks {
	a := Asks{LinkDowned: d.Files.Counters, HWCounter: d.Files.Asking}
	if e >= verbs.EthtoolLink {
		a[LinkState] = 1
	}
	if e >= verbs.EthtoolAll {
		a[Statistics] = 1
	}
	return a
}

// Pace is how often the plugin queries a port and runs a round.
type Pace struct {
	State time.Duration // between two queries of a port; 0: only after events
	Probe time.Duration // between two rounds; 0: none

	Command time.Duration // between two calls that are made because they are commands; 0: none

	Snapshot  time.Duration // between two snapshots of a port without a cause; 0: no snapshots at all
	Triggered int           // snapshots a minute with a cause, at most
}

// Snapshots is how many commands the snapshots of one port cost.
type Snapshots struct {
	One  int // commands for one
	Base int // commands per minute without a cause
	Most int // commands per minute with as many causes as are heard
}

// Snapshots returns the commands for snapshots of one port of a driver with these costs, without
// those for the single queues of its network device.
func (p Pace) Snapshots(d Driver, c Costs, e verbs.Ethtool) Snapshots {
	s := Snapshots{One: c.Of(d.Snapshot(e))}
	if base := times(p.Snapshot); base > 0 {
		s.Base, s.Most = base*s.One, (base+p.Triggered)*s.One
	}
	return s
}

// PerMinute is how many commands per minute one port and one completion vector cost.
type PerMinute struct {
	State int // commands for queries of the port
	Asked int // commands that are made to see whether the device answers
	Round map[verbs.Method]int
}

// Asking returns the calls that see whether the device of a kernel driver answers, when its
// ports have hw_counters, or else the method of the probe keeps its queue pair.
func Asking(kernel string) Asks {
	switch commands := verbs.DriverCommands(kernel); {
	case commands.Has(verbs.CommandHWCounters):
		return Asks{HWCounter: 1}
	case commands.Has(verbs.CommandQueryQP):
		return Asks{QueryQP: 1}
	}
	return nil
}

// PerMinute returns the commands per minute for one port of a device of a kernel driver
// with these costs.
func (p Pace) PerMinute(kernel string, c Costs) PerMinute {
	m := PerMinute{
		State: times(p.State) * c.Of(PortReading()), Asked: times(p.Command) * c.Of(Asking(kernel)), Round: map[verbs.Method]int{},
	}
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
