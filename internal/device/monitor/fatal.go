package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// fatalLimit is how long a device_fatal waits until it is known whether the kernel raised it because it took the device from its users:
// to move the device to another network namespace, because the PCI function was removed, or because a soft device is deleted. Where no uevents come, as in a
// user namespace, discovery looks every ten seconds. The kernel deletes a PCI function only after the driver has let go of it, which takes
// some seconds if the function no longer answers.
const fatalLimit = 10*time.Second + moveLimit

// taking tells whether the kernel has taken a device from its users, which makes it raise a device_fatal.
type taking int

const (
	takingNot     taking = iota // it has not: a device_fatal is a fault of the device
	takingUnknown               // it may have
	takingSure                  // it has moved the device to another network namespace, removed its PCI function, or deleted a soft device
)

// fatals decides which device_fatal events of a device are faults.
type fatals struct {
	faults  uint64
	excused uint64 // those that the kernel raised because it took the device from its users
	waiting int64  // CLOCK_MONOTONIC ns since when there have been others; 0: there are no others
}

// decide attributes the events that have not been attributed yet. total counts all events so far.
func (f *fatals) decide(total uint64, why taking, mono int64) {
	switch {
	case total <= f.faults+f.excused:
	case why == takingSure:
		f.excused = total - f.faults
	case why == takingUnknown && f.waiting == 0:
		f.waiting = mono
		return
	case why == takingUnknown && mono-f.waiting < int64(fatalLimit):
		return
	default:
		f.faults = total - f.excused
	}
	f.waiting = 0
}

// pciFunction is what a Device knows about the PCI function that it goes with. Device.mu guards it.
type pciFunction struct {
	address  string // "" if it is not known
	instance uint64 // verbs.PCIFunction.Instance when the device appeared
	removed  bool   // the kernel has removed it since
	removals uint64
}

// known reports whether a removal of the function would be noticed.
func (f *pciFunction) known() bool { return f.instance != 0 }

// countFatals counts the device_fatal events. One that the kernel may have raised because it took the device from its users
// (uverbs_std_types_async_fd.c) waits until that is known. The caller holds d.mu.
func (d *Device) countFatals(t *moment) {
	if d.fatals.waiting != 0 {
		d.lookAtFunction()
	}
	d.decideFatals(d.taking(), t)
}

func (d *Device) decideFatals(why taking, t *moment) {
	d.fatals.decide(d.own.counter(verbs.EventDeviceFatal).total(), why, t.mono)
}

// taking tells whether the kernel has taken the device from its users. The caller holds d.mu.
func (d *Device) taking() taking {
	switch {
	case d.netns.other, d.function.removed, d.reason == status.ReasonDeleted:
		return takingSure
	case d.renamed: // nobody looks at a device of this name any more
	case d.canMove() && (d.present || d.unconfirmed), d.function.known(), d.present && d.removedReason() == status.ReasonDeleted:
		return takingUnknown
	}
	return takingNot
}

// excuseFatals attributes the device_fatal events that wait in countFatals to the kernel, so that they never count as faults of the
// device. The caller holds d.mu.
func (d *Device) excuseFatals() {
	d.fatals.decide(d.own.counter(verbs.EventDeviceFatal).total(), takingSure, 0)
}

// lookAtFunction finds out whether the kernel has removed the device's PCI function, if the device is gone or has raised a
// device_fatal. A function that was removed and is back is another instance. The caller holds d.mu.
func (d *Device) lookAtFunction() {
	f := &d.function
	if !f.known() || f.removed || d.present && d.fatals.waiting == 0 {
		return
	}
	now := d.cfg.Function(f.address)
	if now.Absent || now.Instance != 0 && now.Instance != f.instance {
		f.removed = true
		f.removals++
	}
}

// enterFunction handles that the device f appears under this name. again says that it is the device that was here before. The caller
// holds d.mu, and has not changed d.found yet.
func (d *Device) enterFunction(f verbs.Found, again bool, t *moment) {
	d.lookAtFunction()
	switch {
	case d.function.removed, d.reason == status.ReasonDeleted:
		d.excuseFatals()
	case d.function.known() && !again:
		d.decideFatals(takingNot, t) // the function stayed, and the driver has registered the device again
	}
	d.endRemoval()
	address := f.OwningPCI()
	d.function = pciFunction{address: address, removals: d.function.removals}
	if address != "" {
		d.function.instance = d.cfg.Function(address).Instance
	}
}

// endCounts counts the device_fatal events and the removal that still wait when monitoring ends. The caller holds d.mu.
func (d *Device) endCounts(t *moment) {
	d.lookAtFunction()
	d.endRemoval()
	if d.taking() == takingUnknown {
		d.decideFatals(takingNot, t)
	}
}
