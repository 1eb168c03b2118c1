package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// moveLimit is how long the kernel may take to move a device to another network namespace: it takes the device from its users,
// removes its node, and makes the node again (rdma_dev_change_netns in drivers/infiniband/core/device.c). A device that has left
// this network namespace for longer, and is in no other one, is removed.
const moveLimit = 5 * time.Second

// netns is what a Device knows about network namespaces. Device.mu guards it.
type netns struct {
	other bool  // the device is in another one
	since int64 // CLOCK_BOOTTIME ns since when it has been there, as far as discovery has seen it
}

// canMove reports whether the device belongs to one network namespace and can be moved to another. The caller holds d.mu.
func (d *Device) canMove() bool { return d.found.Netns != verbs.NetnsShared }

// mayBeMoving reports whether the device has left this network namespace and it is not known yet whether it has also left the host.
// The caller holds d.mu.
func (d *Device) mayBeMoving() bool { return d.unconfirmed && d.canMove() }

// moveAway handles a device that discovery found in another network namespace. That is no removal. The caller holds d.mu.
func (d *Device) moveAway(f verbs.Found, t *moment) {
	d.listed = false
	if d.netns.other {
		return
	}
	at := t.mono
	switch {
	case !d.seen || d.renamed:
		d.found, d.seen, d.renamed, d.finished = f, true, false, false
	case d.present:
		d.depart(status.ReasonOtherNetns, t)
	case d.unconfirmed:
		at = d.goneAt
	}
	d.goneAt, d.reason = at, status.ReasonOtherNetns
	d.unconfirmed, d.uncounted, d.disproved = false, false, false
	d.found.Netns = verbs.NetnsOther
	d.netns.other, d.netns.since = true, t.bootAt(at)
	d.explainMove(t)
	d.dismiss() // a worker that received no uevent still has it open, and gets nothing from it any more
}

// leaveNamespace makes a device absent that discovery no longer finds in this network namespace. It may have moved to another one,
// so its removal is counted only if discovery has not found it there within moveLimit. The caller holds d.mu.
func (d *Device) leaveNamespace(t *moment) {
	d.netns.other = false
	d.depart(d.removedReason(), t)
	d.unconfirmed, d.uncounted = true, true
}

// confirmRemovalInTime counts the removal of a device that left this network namespace and did not appear in another one within
// moveLimit, or whose PCI function the host no longer has. The caller holds d.mu.
func (d *Device) confirmRemovalInTime(t *moment) {
	if d.mayBeMoving() && !d.listed && (d.function.removed || t.mono-d.goneAt >= int64(moveLimit)) {
		d.confirm(t)
	}
}

// cancelRemoval handles a device that left this network namespace and came back before discovery looked for it. That is not a
// removal. The caller holds d.mu.
func (d *Device) cancelRemoval(t *moment) {
	d.unconfirmed, d.uncounted, d.disproved = false, false, false
	d.excuseFatals()
	d.explainMove(t)
}

// cameBack reports whether the device has been in another network namespace since discovery last reported it, and is f now. A move
// keeps the kernel's index of a device, whereas a device that is registered again gets another index. The caller holds d.mu.
func (d *Device) cameBack(f verbs.Found) bool {
	return d.canMove() && f.Usable() && f.Index >= 0 && f.Index == d.found.Index && f.Added > d.found.Added
}

// explainMove judges what waits. The uevent of the move explains it as that of a removal does. The caller holds d.mu.
func (d *Device) explainMove(t *moment) {
	d.removedAt = d.goneAt
	d.judgeAll(t)
	for _, p := range d.ports {
		p.facts.counters, p.facts.countersAt = nil, 0
	}
}
