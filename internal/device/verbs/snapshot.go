package verbs

import (
	"maps"
	"slices"
)

// Trigger is why a snapshot was taken: the name of an event type (EventType.String), or one
// of the constants.
type Trigger string

// The triggers that are no events.
const (
	TriggerBase           Trigger = "base"            // the interval: deltas of later snapshots count from it
	TriggerState          Trigger = "state"           // a query found another state, and no event said so
	TriggerLostEvent      Trigger = "lost_event"      // a round of a probe ended so
	TriggerLostCompletion Trigger = "lost_completion" // likewise
	TriggerCommand        Trigger = "command"         // a call is stuck
	TriggerRemoved        Trigger = "removed"         // the device is gone
)

// CounterSource is where a counter was read.
type CounterSource string

// The sources.
const (
	CountersHardware CounterSource = "hw_counters" // ports/N/hw_counters in sysfs: the driver's own
	CountersPort     CounterSource = "counters"    // ports/N/counters in sysfs: the attributes of the InfiniBand standard
	CountersPCI      CounterSource = "aer"         // errors of the PCI function (sysfs, aer_dev_*)
	CountersNetDev   CounterSource = "ethtool"     // the statistics of the port's network device
	CountersFEC      CounterSource = "fec"         // the forward error correction of the port's network device
	CountersHWMon    CounterSource = "hwmon"       // the sensors of the PCI function; no counters
)

// The names of what CountersFEC and CountersHWMon have.
const (
	FECCorrected     = "fec_corrected_blocks"
	FECUncorrectable = "fec_uncorrectable_blocks"
	Temperature      = "temp1_input" // thousandths of a degree Celsius
)

// Counters is one reading of counters, by source and name. A counter that could not be read is
// not in it.
type Counters map[CounterSource]map[string]uint64

// NetDev is what the kernel has about the network device of a port.
type NetDev struct {
	Name    string
	AdminUp bool // IFF_UP
	// Carrier is not known while the device is administratively down: the kernel answers EINVAL.
	Carrier, HasCarrier bool
	// CarrierChanges counts how often the carrier came or went since the device was made.
	CarrierChanges    int64
	HasCarrierChanges bool
	// Virtual devices have no hardware below: bonds, VLANs, veth.
	Virtual bool
}

// Link is what the driver of a port's network device has about its link.
type Link struct {
	// ExtState is the reason why there is no link, as in "no_cable": the words of
	// enum ethtool_link_ext_state (include/uapi/linux/ethtool.h). It is "" if the driver gives none.
	ExtState string
	// ExtSubstate is more about ExtState, as in "no_partner_detected"; "" if there is no more.
	ExtSubstate string
}

// Snapshot is what was read about a port after a trigger. It is sent again when more of it is
// read: after the network device, which asks no driver, after the counters, and after what is
// asked under the kernel's RTNL lock. The later one has all that the earlier one had.
type Snapshot struct {
	Port    int
	Trigger Trigger
	At      int64  // CLOCK_MONOTONIC ns of the trigger
	Merged  uint64 // further triggers that this one is for, too
	Mono    int64  // CLOCK_MONOTONIC ns, before the first part was read
	Took    int64  // ns until the last part
	Done    bool   // no part follows

	NetDev *NetDev // nil: not read

	Answered bool // the device answered a command in time

	Counters   Counters // nil: not read
	CountersAt int64    // CLOCK_MONOTONIC ns, before they were read

	Link   *Link // nil: not asked
	LinkAt int64 // CLOCK_MONOTONIC ns, before it was asked

	LeftOut []string // what was not read or not asked, and why
}

// Clone returns a copy whose counters are copies, too.
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

// Ethtool is what is asked of the driver of a port's network device.
type Ethtool uint8

// The values of Ethtool.
const (
	EthtoolOff  Ethtool = iota
	EthtoolLink         // why there is no link
	EthtoolAll          // also its statistics
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
