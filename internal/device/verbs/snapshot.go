package verbs

import (
	"maps"
	"slices"
)

// Trigger is the reason why a snapshot was taken: the name of an event type
// (EventType.String), or one of the constants.
type Trigger string

// The triggers that are no events.
const (
	TriggerBase           Trigger = "base"            // the interval: later snapshots compute their deltas from this one
	TriggerState          Trigger = "state"           // a query found another state without an event
	TriggerLostEvent      Trigger = "lost_event"      // a round of a probe ended with OutcomeLostEvent
	TriggerLostCompletion Trigger = "lost_completion" // a round of a probe ended with OutcomeLostCompletion
	TriggerCommand        Trigger = "command"         // a call is stuck
	TriggerRemoved        Trigger = "removed"         // the device was removed
)

// IsEvent reports whether an asynchronous event of type e triggered the snapshot.
func (t Trigger) IsEvent(e EventType) bool { return t == Trigger(e.String()) }

// CounterSource is the place where a counter is read.
type CounterSource string

// The sources.
const (
	CountersHardware CounterSource = "hw_counters" // ports/N/hw_counters in sysfs: the driver's own counters
	CountersPort     CounterSource = "counters"    // ports/N/counters in sysfs: the attributes of the InfiniBand standard
	CountersPCI      CounterSource = "aer"         // errors of the PCI function (sysfs, aer_dev_*)
	CountersNetDev   CounterSource = "ethtool"     // the statistics of the port's network device
	CountersFEC      CounterSource = "fec"         // the forward error correction of the port's network device
	CountersHWMon    CounterSource = "hwmon"       // the sensors of the PCI function, which are gauges
)

// The names of the counters of CountersFEC and of the sensor of CountersHWMon.
const (
	FECCorrected     = "fec_corrected_blocks"
	FECUncorrectable = "fec_uncorrectable_blocks"
	Temperature      = "temp1_input" // thousandths of a degree Celsius
)

// Counters is one reading of counters, by source and name. It lacks counters that could not be
// read.
type Counters map[CounterSource]map[string]uint64

// NetDev is the state of a port's network device as the kernel knows it.
type NetDev struct {
	Name    string
	AdminUp bool // IFF_UP
	// Carrier is unknown while the device is administratively down: the kernel answers EINVAL.
	Carrier, HasCarrier bool
	// CarrierChanges counts how often the carrier came or went since the device was created.
	CarrierChanges    int64
	HasCarrierChanges bool
	// Virtual marks devices without hardware of their own: bonds, VLANs, veth.
	Virtual bool
}

// Link is the state of a port's link as reported by the driver of its network device.
type Link struct {
	// ExtState is the reason why there is no link, as in "no_cable": a name from
	// enum ethtool_link_ext_state (include/uapi/linux/ethtool.h). It is "" if the driver gives none.
	ExtState string
	// ExtSubstate is the detail of ExtState, as in "no_partner_detected"; "" if there is none.
	ExtSubstate string
}

// Snapshot holds the values read about a port after a trigger. They are read in three parts: the
// network device's state, which involves no driver, the counters, and what needs the kernel's RTNL
// lock. The session sends the Snapshot after each part, with all earlier parts.
type Snapshot struct {
	Port    int
	Trigger Trigger
	At      int64  // CLOCK_MONOTONIC ns of the trigger
	Merged  uint64 // number of further triggers that this snapshot also covers
	Mono    int64  // CLOCK_MONOTONIC ns, before the first part was read
	Took    int64  // ns until the last part was read
	Done    bool   // no part follows

	NetDev *NetDev // nil: not read

	Answered bool // the device answered a command in time

	Counters   Counters // nil: not read
	CountersAt int64    // CLOCK_MONOTONIC ns, before they were read

	Link   *Link // nil: not asked
	LinkAt int64 // CLOCK_MONOTONIC ns, before it was asked

	LeftOut []string // what was not read or asked, and why
}

// Clone returns a deep copy, except that NetDev and Link are shared.
func (s *Snapshot) Clone() Snapshot {
	c := *s
	c.LeftOut = slices.Clone(s.LeftOut)
	if s.Counters != nil {
		c.Counters = Counters{}
		for from, values := range s.Counters {
			c.Counters[from] = maps.Clone(values)
		}
	}
	return c
}

// Ethtool tells how much the session asks the driver of a port's network device.
type Ethtool uint8

// The values of Ethtool.
const (
	EthtoolOff  Ethtool = iota
	EthtoolLink         // the reason why there is no link
	EthtoolAll          // the reason and the statistics
)

// ParseEthtool returns the value of "off", "link" or "all".
func ParseEthtool(s string) (e Ethtool, ok bool) {
	for e := range EthtoolAll + 1 {
		if e.String() == s {
			return e, true
		}
	}
	return EthtoolOff, false
}

// String returns "off", "link" or "all".
func (e Ethtool) String() string {
	switch e {
	case EthtoolLink:
		return "link"
	case EthtoolAll:
		return "all"
	}
	return "off"
}
