package monitor

import "rdma_events/internal/sys/status"

// settleNode decides after a report of discovery whether a worker may open the device, and closes a device that never gets a node.
// While a node is still expected no worker is started: a later report says that the node is there, or that it never will be. The
// caller holds d.mu.
func (d *Device) settleNode(t *moment) (mayOpen bool) {
	if d.found.Unwatchable == "" {
		if d.reason == status.ReasonUnwatchable {
			d.reason = status.ReasonStarting
		}
		return !d.found.Pending
	}
	if d.reason != status.ReasonUnwatchable {
		d.log.Info("not watched: " + d.found.Unwatchable)
	}
	d.reason = status.ReasonUnwatchable
	d.shut(t)
	d.dismiss()
	return false
}

// retryUnwatchable makes a worker try again to open the device if it could not be opened for want of a library.
func (d *Device) retryUnwatchable() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.present && d.reason == status.ReasonUnwatchable && d.job != nil && !d.job.over {
		d.job.sup.Wake()
	}
}
