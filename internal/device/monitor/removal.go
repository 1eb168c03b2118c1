package monitor

import "rdma_events/internal/sys/status"

// removals counts the removals of a device. Device.mu guards it.
type removals struct {
	all       uint64
	unplanned uint64
	waiting   bool // whether the last one was planned is not known yet
}

// countRemoval counts that the device was removed. One of a device that is released is what it was released for. The caller holds d.mu.
func (d *Device) countRemoval() {
	d.removals.all++
	if d.removals.waiting { // nothing has explained the one before
		d.removals.unplanned++
	}
	d.removals.waiting = !d.released
}

// explainedRemoval reports whether the last removal is known to be planned, or to be that of the PCI function: what shows that may come
// some time after the removal. The caller holds d.mu.
func (d *Device) explainedRemoval() bool {
	return d.released || d.renamed || d.netns.other || d.function.removed ||
		d.reason == status.ReasonReassigned || d.reason == status.ReasonDeleted
}

// settleRemovalKind counts a removal as unplanned that nothing has explained within fatalLimit. The caller holds d.mu.
func (d *Device) settleRemovalKind(t *moment) {
	if !d.present && (d.explainedRemoval() || t.mono-d.goneAt >= int64(fatalLimit)) {
		d.endRemoval()
	}
}

// endRemoval decides about a removal that waits: the device is back, nothing more is expected to explain it, or monitoring ends. The
// caller holds d.mu.
func (d *Device) endRemoval() {
	if d.removals.waiting && !d.explainedRemoval() {
		d.removals.unplanned++
	}
	d.removals.waiting = false
}
