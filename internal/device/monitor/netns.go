package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// moveLimit is the time within which the kernel moves a device to another network namespace: it withdraws the device from its users,
// removes its node, and makes the node again (rdma_dev_change_netns in drivers/infiniband/core/device.c). A device that left this
// network namespace longer ago and is in no other one counts as removed.
const moveLimit = 5 * time.Second

// netns tells whether a Device is in another network namespace. Device.mu guards it.
type netns struct {
	other bool
	since int64 // when the device left this network namespace, as far as discovery knows, CLOCK_BOOTTIME ns
}

// canMove reports whether the device belongs to one network namespace, and so can be moved to another. The caller holds d.mu.
func (d *Device) canMove() bool { return d.found.Netns != verbs.NetnsShared }

// mayBeMoving reports whether the device has left this network namespace and it is unknown whether it was moved or removed.
// The caller holds d.mu.
func (d *Device) mayBeMoving() bool { return d.unconfirmed && d.canMove() }

// markInOtherNetns handles a device that discovery found in another network namespace. The move is no removal. The caller holds d.mu.
func (d *Device) markInOtherNetns(f verbs.Found, t *moment) {
	d.listed = false
	if d.netns.other {
		return
	}
	at := t.mono
	switch {
	case !d.seen || d.renamed:
		d.found, d.seen, d.renamed, d.finished = f, true, false, false
	case d.present:
		d.markAbsent(status.ReasonOtherNetns, t)
	case d.unconfirmed:
		at = d.goneAt
	}
	d.goneAt, d.reason = at, status.ReasonOtherNetns
	d.unconfirmed, d.uncounted, d.refuted = false, false, false
	d.found.Netns = verbs.NetnsOther
	d.netns.other, d.netns.since = true, t.bootAt(at)
	d.judgeAfterMove(t)
	d.endSupervision() // a worker that received no uevent still has the device open, but the device reports nothing to it any more
}

// markLeftNetns marks a device absent because discovery no longer finds it in this network namespace. The device may have moved to
// another one, so the removal counts only if discovery does not find it there within moveLimit. The caller holds d.mu.
func (d *Device) markLeftNetns(t *moment) {
	d.netns.other = false
	d.markAbsent(d.removedReason(), t)
	d.unconfirmed, d.uncounted = true, true
}

// confirmOverdueRemoval confirms the removal of a device that left this network namespace and did not appear in another one within
// moveLimit, or whose PCI function is gone. The caller holds d.mu.
func (d *Device) confirmOverdueRemoval(t *moment) {
	if d.mayBeMoving() && !d.listed && (d.function.removed || t.mono-d.goneAt >= int64(moveLimit)) {
		d.confirmRemoval(t)
	}
}

// cancelRemoval handles a device that left this network namespace and came back between two scans of discovery. That is no
// removal. The caller holds d.mu.
func (d *Device) cancelRemoval(t *moment) {
	d.unconfirmed, d.uncounted, d.refuted = false, false, false
	d.excuseFatals()
	d.judgeAfterMove(t)
}

// hasMovedBack reports whether f is this device after it has been in another network namespace since the last report of discovery. A
// move keeps the kernel's index of a device, whereas a device that is registered again gets another index. The caller holds d.mu.
func (d *Device) hasMovedBack(f verbs.Found) bool {
	return d.canMove() && f.Usable() && f.Index >= 0 && f.Index == d.found.Index && f.Added > d.found.Added
}

// judgeAfterMove judges the waiting triggers, which the uevent of the move explains as the uevent of a removal would, and drops the
// counters of the last snapshots. The caller holds d.mu.
func (d *Device) judgeAfterMove(t *moment) {
	d.removedAt = d.goneAt
	d.judgeAllTriggers(t)
	for _, p := range d.ports {
		p.facts.counters, p.facts.countersAt = nil, 0
	}
}
