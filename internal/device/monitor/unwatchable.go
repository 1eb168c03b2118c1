package monitor

import "rdma_events/internal/sys/status"

// settleNode decides whether a worker may open the device, and closes a device that will never have a node. While the kernel may
// still make the node, no worker is started: a later report tells that the node exists, or that it never will. The caller holds d.mu.
func (d *Device) settleNode(t *moment) (mayOpen bool) {
	if d.found.Unwatchable == "" {
		if d.reason == status.ReasonUnwatchable {
			d.reason = status.ReasonStarting
		}
		return !d.found.Pending
	}
	if d.reason != status.ReasonUnwatchable {
		d.log.Info("device not watched", "cause", d.found.Unwatchable)
	}
	d.reason = status.ReasonUnwatchable
	d.markClosed(t)
	d.endSupervision()
	return false
}

// retryUnwatchable makes a worker try again to open a device that could not be opened because its library was missing.
func (d *Device) retryUnwatchable() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.present && d.reason == status.ReasonUnwatchable && d.job != nil && !d.job.canceled {
		d.job.sup.Wake()
	}
}
