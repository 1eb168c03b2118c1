package cause

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Cause is why something happened to a port, as in the field `cause` of rdma_evidence. It is ""
// unless it is certain.
type Cause string

// The causes. The names of the link's states are those of include/uapi/linux/ethtool.h, shortened.
const (
	AdminDown     Cause = "admin_down"     // the network device was set down: IFF_UP is clear (shown on Linux 6.1)
	NoCarrier     Cause = "no_carrier"     // the network device is up and has no carrier: cable, switch or peer, not distinguished (shown on Linux 6.1)
	NoCable       Cause = "no_cable"       // no_cable of the driver (mlx5e, hns3; code)
	CableIssue    Cause = "cable_issue"    // cable_issue of the driver (code)
	BadSignal     Cause = "bad_signal"     // bad_signal_integrity of the driver (code)
	Training      Cause = "training"       // link_training_failure of the driver (code)
	Autoneg       Cause = "autoneg"        // autoneg of the driver: no partner or no agreement (code)
	Module        Cause = "module"         // module of the driver: the transceiver (code)
	Overheat      Cause = "overheat"       // overheat of the driver (code)
	PowerBudget   Cause = "power_budget"   // power_budget_exceeded of the driver (code)
	DriverRemoved Cause = "driver_removed" // the device is gone: driver unloaded or unbound, function gone, moved to another network namespace (uevent)
	DeviceFatal   Cause = "device_fatal"   // the driver gave the device up (IBV_EVENT_DEVICE_FATAL)
	CommandStuck  Cause = "command_stuck"  // the device does not answer commands
	MACChange     Cause = "mac_change"     // the default GID changed, which the kernel makes from the MAC address (shown on Linux 6.1)
	AddressChange Cause = "address_change" // only GIDs of addresses changed (shown on Linux 6.1)
	SMChange      Cause = "sm_change"      // another subnet manager serves the port
)

// linkCauses has the cause for each of the driver's words that has one. With another word, as
// eeprom_issue or calibration_failure, the cause is no_carrier, which is as certain as without it.
var linkCauses = map[string]Cause{
	"no_cable":              NoCable,
	"cable_issue":           CableIssue,
	"bad_signal_integrity":  BadSignal,
	"link_training_failure": Training,
	"autoneg":               Autoneg,
	"module":                Module,
	"overheat":              Overheat,
	"power_budget_exceeded": PowerBudget,
}

// The longest time between a trigger and a fact that explains it.
const (
	netDevLimit = time.Second     // flags and carrier are read first, and another hand can change them soon after
	readLimit   = 5 * time.Second // no part of a snapshot is begun later
	seenLimit   = 5 * time.Second // for what was seen besides: a removal, device_fatal, a stuck command
	ownFatal    = time.Second     // from a device_fatal that the removal itself raises to the removal
)

// rules are in the order in which they are asked: a fault of the whole device before the state
// of its link, which follows from it.
var rules = []func(*Facts) Cause{removed, fatal, stuck, linkDown, gidsChanged, smChanged}

// Of returns the cause of the event that the facts were gathered for, "" if no cause is certain.
func Of(f Facts) Cause {
	if f.cameUp() {
		return "" // the facts would say why it did not work before
	}
	for _, rule := range rules {
		if c := rule(&f); c != "" {
			return c
		}
	}
	return ""
}

// removed comes before fatal: the kernel itself raises device_fatal when it takes a device away
// from its users (drivers/infiniband/core/uverbs_std_types_async_fd.c). The uevent can come
// before or after the trigger, since network devices go first.
//
// One that came long before the removal is the driver's: it may remove the device to recover it.
func removed(f *Facts) Cause {
	ownFault := f.Fatal.Known && f.Removed.Since-f.Fatal.Since > ownFatal
	if ownFault || !f.Removed.within(seenLimit, seenLimit) {
		return ""
	}
	return DriverRemoved
}

func fatal(f *Facts) Cause {
	if f.Fatal.within(seenLimit, 0) {
		return DeviceFatal
	}
	return ""
}

func stuck(f *Facts) Cause {
	if f.stuck() && !f.setDown() {
		return CommandStuck
	}
	return ""
}

// linkDown has no cause of a trigger that may be late, nor where facts exclude each other. If a command is stuck while the network
// device is set down, either may be the reason of the other, since setting it down takes
// commands. The kernel asks for an extended state only with IFF_UP (net/ethtool/linkstate.c),
// and mlx5e has none while there is a carrier: with other flags, something changed between the
// readings.
func linkDown(f *Facts) Cause {
	if !f.wentDown() || f.stuck() || f.Late {
		return ""
	}
	n, state := f.netDev(), f.extState()
	switch {
	case state != "" && (n.AdminUp == No || n.Carrier == Yes):
		return ""
	case linkCauses[state] != "":
		return linkCauses[state]
	case f.setDown():
		return AdminDown
	case n.AdminUp == Yes && n.Carrier == No:
		return NoCarrier
	}
	return ""
}

// gidsChanged explains no change of the port's state, with which addresses come and go.
func gidsChanged(f *Facts) Cause {
	switch g := f.GIDs; {
	case f.LinkLayer != verbs.LinkEthernet, !f.steady(), !g.within(0, readLimit), g.changed == 0:
		return ""
	case g.replaced():
		return MACChange
	case len(g.gone)+len(g.came) > 0:
		return "" // network devices came or went
	}
	return AddressChange
}

// smChanged explains no change of the port's state: a port that went down loses its subnet
// manager.
func smChanged(f *Facts) Cause {
	if f.LinkLayer == verbs.LinkInfiniBand && f.steady() && f.SMLID.within(0, readLimit) && f.SMLID.From != f.SMLID.To {
		return SMChange
	}
	return ""
}

// stuck reports whether the trigger may follow from a device that does not answer. The GID table
// is the kernel's, and what an event reports the device has done.
func (f *Facts) stuck() bool {
	switch f.Trigger {
	case verbs.Trigger(verbs.EventGIDChange.String()), verbs.Trigger(verbs.EventLIDChange.String()),
		verbs.Trigger(verbs.EventPKeyChange.String()), verbs.Trigger(verbs.EventSMChange.String()):
		return false
	}
	return f.Stuck.within(seenLimit, 0) && !f.Answered
}

// netDev returns what was read soon enough, else nothing.
func (f *Facts) netDev() NetDev {
	if !f.NetDev.within(0, netDevLimit) {
		return NetDev{}
	}
	return f.NetDev
}

// extState returns the driver's word if it was read soon enough, else "".
func (f *Facts) extState() string {
	if !f.ExtState.within(0, readLimit) {
		return ""
	}
	return f.ExtState.Name
}

// wentDown reports whether the port went down with its network device, as on RoCE and iWARP.
func (f *Facts) wentDown() bool {
	return f.LinkLayer == verbs.LinkEthernet && f.After == verbs.PortDown && f.Before != verbs.PortDown
}

// setDown reports whether the port went down and its network device was set down.
func (f *Facts) setDown() bool { return f.wentDown() && f.netDev().AdminUp == No }

func (f *Facts) steady() bool { return f.After != verbs.PortNop && f.Before == f.After }

func (f *Facts) cameUp() bool {
	return f.After == verbs.PortActive && f.Before != verbs.PortActive && f.Before != verbs.PortNop
}
