package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// fatalLimit is the time after which a device_fatal counts as a fault unless it turns out that the kernel raised it because it
// withdrew the device from its users: to move the device to another network namespace, because the PCI function was removed or given
// to another driver or another RDMA device, or because a soft device was deleted. Without uevents, as in a user namespace, discovery
// scans every ten seconds. The kernel deletes a PCI function only after the driver has released it, which takes some seconds if the
// function no longer answers.
const fatalLimit = 10*time.Second + moveLimit

// withdrawal tells whether the kernel has withdrawn a device from its users. The kernel then raises a device_fatal that is no fault.
type withdrawal int

const (
	withdrawalNone     withdrawal = iota // a device_fatal is a fault of the device
	withdrawalPossible                   // not known yet
	withdrawalCertain                    // the kernel withdrew the device for one of the reasons of fatalLimit
)

// fatals decides which device_fatal events of a device are faults.
type fatals struct {
	faults  uint64
	excused uint64 // events that the kernel raised because it withdrew the device
	waiting int64  // when the first undecided event was counted, CLOCK_MONOTONIC ns; 0: all are decided
}

// attribute counts the undecided events as faults or as excused, unless why leaves that open for less than fatalLimit. total counts
// all events so far.
func (f *fatals) attribute(total uint64, why withdrawal, mono int64) {
	switch {
	case total <= f.faults+f.excused:
	case why == withdrawalCertain:
		f.excused = total - f.faults
	case why == withdrawalPossible && f.waiting == 0:
		f.waiting = mono
		return
	case why == withdrawalPossible && mono-f.waiting < int64(fatalLimit):
		return
	default:
		f.faults = total - f.excused
	}
	f.waiting = 0
}

// pciFunction is the PCI function below a Device. A removal of the function removes the device. Device.mu guards it.
type pciFunction struct {
	address  string // "" if it is not known
	instance uint64 // verbs.PCIFunction.Instance when the device appeared
	removed  bool   // the kernel has removed the function since then
	removals uint64 // without those of a released device
}

// isKnown reports whether the plugin would notice a removal of the function.
func (f *pciFunction) isKnown() bool { return f.instance != 0 }

// attributeFatals counts the device_fatal events as faults or as excused. Events that the kernel may have raised because it withdrew
// the device (uverbs_std_types_async_fd.c) wait until that is known. The caller holds d.mu.
func (d *Device) attributeFatals(t *moment) {
	if d.fatals.waiting != 0 {
		d.checkFunction()
	}
	d.attributeFatalsAs(d.withdrawalState(), t)
}

// attributeFatalsAs does the same for a given withdrawal. The caller holds d.mu.
func (d *Device) attributeFatalsAs(why withdrawal, t *moment) {
	d.fatals.attribute(d.deviceSeries.ensureCounter(verbs.EventDeviceFatal).total(), why, t.mono)
}

// withdrawalState returns whether the kernel has withdrawn the device. The caller holds d.mu.
func (d *Device) withdrawalState() withdrawal {
	switch {
	case d.netns.other, d.function.removed, d.reason == status.ReasonDeleted, d.reason == status.ReasonReassigned:
		return withdrawalCertain
	case d.renamed: // nothing under this name could decide it any more
	case d.canMove() && (d.present || d.unconfirmed), d.function.isKnown(), d.present && d.removedReason() == status.ReasonDeleted:
		return withdrawalPossible
	}
	return withdrawalNone
}

// excuseFatals counts the undecided device_fatal events as excused. The caller holds d.mu.
func (d *Device) excuseFatals() {
	d.fatals.attribute(d.deviceSeries.ensureCounter(verbs.EventDeviceFatal).total(), withdrawalCertain, 0)
}

// checkFunction finds out whether the kernel has removed the device's PCI function, if the device is gone or has undecided
// device_fatal events. A function that was removed and is back has another instance. The caller holds d.mu.
func (d *Device) checkFunction() {
	f := &d.function
	if !f.isKnown() || f.removed || d.present && d.fatals.waiting == 0 {
		return
	}
	now := d.cfg.Function(f.address)
	if now.Absent || now.Instance != 0 && now.Instance != f.instance {
		f.removed = true
		if !d.released {
			f.removals++
		}
	}
}

// bindFunction settles device_fatal events and the removal of the last device of this name, and stores the PCI function of f, the
// device that appears. again tells that f is the same device. The caller holds d.mu, and has not changed d.found yet.
func (d *Device) bindFunction(f verbs.Found, again bool, t *moment) {
	d.checkFunction()
	switch {
	case d.function.removed, d.reason == status.ReasonDeleted, d.reason == status.ReasonReassigned, !again && d.hasJoinedBond():
		d.excuseFatals()
	case d.function.isKnown() && !again:
		d.attributeFatalsAs(withdrawalNone, t) // the function stayed: the driver has registered the device again
	}
	d.endRemoval()
	address := f.OwningPCI()
	d.function = pciFunction{address: address, removals: d.function.removals}
	if address != "" {
		d.function.instance = d.cfg.Function(address).Instance
	}
}

// hasJoinedBond reports whether the network device of a port joined a bond shortly before the device went. The driver then withdraws
// the devices of the bond's legs and registers one for the bond (RoCE LAG), which may have the name of a leg's. The end of a bond
// cannot be told from the end of the network device, which leaves its bond when the firmware fails, and may join it again later. The
// caller holds d.mu.
func (d *Device) hasJoinedBond() bool {
	const late = int64(time.Second) // between the kernel's message about the bond and that about the removal
	return d.bondJoinedAt != 0 && d.goneAt-int64(fatalLimit) <= d.bondJoinedAt && d.bondJoinedAt <= d.goneAt+late
}

// settleCounts decides the device_fatal events and the removal that are still undecided when monitoring ends. The caller holds d.mu.
func (d *Device) settleCounts(t *moment) {
	d.checkFunction()
	d.endRemoval()
	if d.withdrawalState() == withdrawalPossible {
		d.attributeFatalsAs(withdrawalNone, t)
	}
}
