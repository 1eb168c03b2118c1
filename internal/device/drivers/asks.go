package drivers

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// CallCounts counts how often an operation makes each call.
type CallCounts map[Call]int

// PortReading returns the calls of one port query, without PortSpeed, which most libraries and drivers cannot answer. A test of
// package native compares it with the calls that the code makes.
func PortReading() CallCounts { return CallCounts{PortQuery: 1, LinkDowned: 1} }

// Round returns the calls of one successful round of a probe. A test of package native
// compares it with the calls that the code makes.
func Round(m verbs.Method) CallCounts {
	switch m {
	case verbs.MethodFlush:
		return CallCounts{CreateQP: 1, ModifyQP: 2, DestroyQP: 1} // each round uses up a queue pair
	case verbs.MethodUDSend:
		return CallCounts{CreateAH: 1, DestroyAH: 1} // where addresses may change
	}
	return CallCounts{}
}

// Snapshot returns the calls of one snapshot of a port, which reads all hw_counters at once by
// netlink. If the kernel cannot answer that, reading their files may cost more.
func (d Driver) Snapshot(e verbs.Ethtool) CallCounts {
	a := CallCounts{LinkDowned: d.Files.Counters, HWCounter: d.Files.HWCounterQueries}
	if e >= verbs.EthtoolLink {
		a[LinkState] = 1
	}
	if e >= verbs.EthtoolAll {
		a[Statistics] = 1
	}
	return a
}

// Pace has the intervals at which the plugin queries a port, probes and takes snapshots.
type Pace struct {
	State time.Duration // between two queries of a port; 0: only after events
	Probe time.Duration // between two rounds of a probe; 0: no probes

	Command time.Duration // between two calls that check whether the device answers (CheckingCalls); 0: none

	Snapshot  time.Duration // between two snapshots of a port without a trigger; 0: no snapshots at all
	Triggered int           // largest number of snapshots per minute with a trigger
}

// Snapshots has the numbers of commands that snapshots of one port cost.
type Snapshots struct {
	One  int // commands for one snapshot
	Base int // commands per minute without triggers
	Most int // commands per minute with the largest number of triggered snapshots
}

// Snapshots returns the commands for snapshots of one port of a driver with these costs, without
// the commands for single queues of its network device.
func (p Pace) Snapshots(d Driver, c Costs, e verbs.Ethtool) Snapshots {
	s := Snapshots{One: c.Of(d.Snapshot(e))}
	if base := timesPerMinute(p.Snapshot); base > 0 {
		s.Base, s.Most = base*s.One, (base+p.Triggered)*s.One
	}
	return s
}

// PerMinute has the numbers of commands per minute that one port and one completion vector cost.
type PerMinute struct {
	State  int                  // commands for queries of the port
	Checks int                  // commands that check whether the device answers
	Round  map[verbs.Method]int // commands for the rounds of a probe, by method
}

// CheckingCalls returns the calls that check whether the device of a kernel driver answers. They
// need ports with hw_counters or, for QueryQP, a method of the probe that keeps its queue pair.
func CheckingCalls(kernel string) CallCounts {
	switch commands := verbs.DriverCommands(kernel); {
	case commands.Has(verbs.CommandHWCounters):
		return CallCounts{HWCounter: 1}
	case commands.Has(verbs.CommandQueryQP):
		return CallCounts{QueryQP: 1}
	}
	return nil
}

// PerMinute returns the commands per minute for one port of a device of a kernel driver
// with these costs.
func (p Pace) PerMinute(kernel string, c Costs) PerMinute {
	m := PerMinute{
		State: timesPerMinute(p.State) * c.Of(PortReading()), Checks: timesPerMinute(p.Command) * c.Of(CheckingCalls(kernel)), Round: map[verbs.Method]int{},
	}
	for _, method := range []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite, verbs.MethodFlush} {
		m.Round[method] = timesPerMinute(p.Probe) * c.Of(Round(method))
	}
	return m
}

// timesPerMinute returns how often something with this interval happens per minute, rounded up; 0 for no interval.
func timesPerMinute(every time.Duration) int {
	if every <= 0 {
		return 0
	}
	return int((time.Minute + every - 1) / every)
}
