package monitor

import "rdma_events/internal/sys/status"

// removals counts the removals of a device. Device.mu guards it.
type removals struct {
	all       uint64
	unplanned uint64
	waiting   bool // it is not known yet whether the last removal was planned
}

// countRemoval counts a removal of the device. The removal of a released device is planned. The caller holds d.mu.
func (d *Device) countRemoval() {
	d.removals.all++
	if d.removals.waiting { // nothing has explained the last removal
		d.removals.unplanned++
	}
	d.removals.waiting = !d.released
}

// isRemovalExplained reports whether the last removal is known to be planned, or to be a removal of the PCI function. The evidence
// may come some time after the removal. The caller holds d.mu.
func (d *Device) isRemovalExplained() bool {
	return d.released || d.renamed || d.netns.other || d.function.removed || d.hasJoinedBond() ||
		d.reason == status.ReasonReassigned || d.reason == status.ReasonDeleted
}

// endOverdueRemoval decides about a removal once it is explained, or once nothing has explained it for fatalLimit. The caller holds d.mu.
func (d *Device) endOverdueRemoval(t *moment) {
	if !d.present && (d.isRemovalExplained() || t.mono-d.goneAt >= int64(fatalLimit)) {
		d.endRemoval()
	}
}

// endRemoval counts an undecided removal as unplanned unless it is explained. It is called when the device is back, when no further
// explanation is expected, and when monitoring ends. The caller holds d.mu.
func (d *Device) endRemoval() {
	if d.removals.waiting && !d.isRemovalExplained() {
		d.removals.unplanned++
	}
	d.removals.waiting = false
}
