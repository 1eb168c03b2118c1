package cause

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Cause names the cause of an occurrence on a port, as in the field `cause` of rdma_evidence. It is
// "" unless the cause is certain.
type Cause string

// The causes. Those of the link have the names of include/uapi/linux/ethtool.h, shortened. In
// parentheses: how the rule was verified, on a kernel or by reading the driver's code.
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
	DeviceFatal   Cause = "device_fatal"   // the driver declared the device unusable (IBV_EVENT_DEVICE_FATAL)
	CommandStuck  Cause = "command_stuck"  // the device does not answer commands
	MACChange     Cause = "mac_change"     // the default GID changed, which the kernel makes from the MAC address (shown on Linux 6.1)
	AddressChange Cause = "address_change" // only GIDs of addresses changed (shown on Linux 6.1)
	SMChange      Cause = "sm_change"      // a different subnet manager now serves the port
)

// linkCauses maps the extended states that a driver may report to causes. With any other state, such as
// eeprom_issue or calibration_failure, the cause is no_carrier, as it would be without a state.
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
	netDevLimit   = time.Second     // for flags and carrier: they are read first, and others may change them soon after
	readLimit     = 5 * time.Second // for other parts of a snapshot: the worker begins none later
	eventLimit    = 5 * time.Second // for facts outside the snapshot: a removal, device_fatal, a stuck command
	ownFatalLimit = time.Second     // from a device_fatal that the removal itself raises to the removal
)

// rules has the rules in the order in which Of applies them: faults of the whole device come
// before the state of its link, which follows from them.
var rules = []func(*Facts) Cause{judgeRemoval, judgeFatal, judgeStuck, judgeLink, judgeGIDs, judgeSubnetManager}

// Of returns the cause of the trigger that the facts describe, "" if no cause is certain.
func Of(f Facts) Cause {
	if f.cameUp() {
		return "" // the facts would explain why the port was down before
	}
	for _, rule := range rules {
		if c := rule(&f); c != "" {
			return c
		}
	}
	return ""
}

// judgeRemoval returns DriverRemoved if the device was removed about the time of the trigger. It
// comes before judgeFatal: the kernel itself raises device_fatal when it withdraws a device from
// its users (drivers/infiniband/core/uverbs_std_types_async_fd.c). The uevent can come before or
// after the trigger, since network devices go first.
//
// A device_fatal long before the removal is a fault: the driver may have removed the device to
// recover it.
func judgeRemoval(f *Facts) Cause {
	ownFault := f.Fatal.Known && f.Removed.Since-f.Fatal.Since > ownFatalLimit
	if ownFault || !f.Removed.within(eventLimit, eventLimit) {
		return ""
	}
	return DriverRemoved
}

func judgeFatal(f *Facts) Cause {
	if f.Fatal.within(eventLimit, 0) {
		return DeviceFatal
	}
	return ""
}

func judgeStuck(f *Facts) Cause {
	if f.isStuck() && !f.wasSetDown() {
		return CommandStuck
	}
	return ""
}

// judgeLink returns a cause in the link of the network device. It returns none for a trigger that
// may be late, nor if the facts contradict each other. If a command is stuck while the network
// device is set down, either may have caused the other, since setting the device down needs
// commands. The kernel asks for an extended state only with IFF_UP (net/ethtool/linkstate.c),
// and mlx5e reports none while there is a carrier: a state with other flags shows that something
// changed between the readings.
func judgeLink(f *Facts) Cause {
	if !f.wentDown() || f.isStuck() || f.Late {
		return ""
	}
	n, state := f.recentNetDev(), f.recentExtState()
	switch {
	case state != "" && (n.AdminUp == No || n.Carrier == Yes):
		return ""
	case linkCauses[state] != "":
		return linkCauses[state]
	case f.wasSetDown():
		return AdminDown
	case n.AdminUp == Yes && n.Carrier == No:
		return NoCarrier
	}
	return ""
}

// judgeGIDs returns a cause in the changes of the GID table. It returns none if the port's state
// changed, because addresses come and go with it, nor if an own call of the plugin failed.
func judgeGIDs(f *Facts) Cause {
	switch g := f.GIDs; {
	case f.LinkLayer != verbs.LinkEthernet, !f.isSteady(), f.isOwnFailure(), !g.within(0, readLimit), g.changed == 0:
		return ""
	case g.hasReplacedDefault():
		return MACChange
	case len(g.gone)+len(g.came) > 0:
		return "" // network devices came or went
	}
	return AddressChange
}

// judgeSubnetManager returns SMChange if the port has another subnet manager. It returns none if
// the port's state changed, because a port that went down loses its subnet manager, nor if an own
// call of the plugin failed.
func judgeSubnetManager(f *Facts) Cause {
	if f.LinkLayer == verbs.LinkInfiniBand && f.isSteady() && !f.isOwnFailure() && f.SMLID.within(0, readLimit) && f.SMLID.From != f.SMLID.To {
		return SMChange
	}
	return ""
}

// isOwnFailure reports whether the trigger is a failure of a probe or command of the plugin, whose start
// lies some time before the trigger. What was read after the trigger may have changed after the failure.
func (f *Facts) isOwnFailure() bool {
	switch f.Trigger {
	case verbs.TriggerLostEvent, verbs.TriggerLostCompletion, verbs.TriggerCommand:
		return true
	}
	return false
}

// isStuck reports whether an unresponsive device may have caused the trigger. It cannot have caused
// a change of the GID table, which the kernel keeps, nor events that show that the device has acted.
func (f *Facts) isStuck() bool {
	switch f.Trigger {
	case verbs.Trigger(verbs.EventGIDChange.String()), verbs.Trigger(verbs.EventLIDChange.String()),
		verbs.Trigger(verbs.EventPKeyChange.String()), verbs.Trigger(verbs.EventSMChange.String()):
		return false
	}
	return f.Stuck.within(eventLimit, 0) && !f.Answered
}

// recentNetDev returns the state of the network device if it was read soon enough, else the zero NetDev.
func (f *Facts) recentNetDev() NetDev {
	if !f.NetDev.within(0, netDevLimit) {
		return NetDev{}
	}
	return f.NetDev
}

// recentExtState returns the driver's extended state if it was read soon enough, else "".
func (f *Facts) recentExtState() string {
	if !f.ExtState.within(0, readLimit) {
		return ""
	}
	return f.ExtState.Name
}

// wentDown reports whether the port went down with its network device, as on RoCE and iWARP.
func (f *Facts) wentDown() bool {
	return f.LinkLayer == verbs.LinkEthernet && f.After == verbs.PortDown && f.Before != verbs.PortDown
}

// wasSetDown reports whether the port went down and its network device was set down.
func (f *Facts) wasSetDown() bool { return f.wentDown() && f.recentNetDev().AdminUp == No }

// isSteady reports whether the port's state is known and did not change. A port_err announces a change,
// so the port is not steady even if no reading has shown that change.
func (f *Facts) isSteady() bool {
	return f.After != verbs.PortNop && f.Before == f.After && !f.Trigger.IsEvent(verbs.EventPortErr)
}

// cameUp reports whether the port became active.
func (f *Facts) cameUp() bool {
	return f.After == verbs.PortActive && f.Before != verbs.PortActive && f.Before != verbs.PortNop
}
