package monitor

import "rdma_events/internal/status"

// openable reports whether a worker could open the device, of which discovery has just reported something. No worker is started
// for a device without a node while ib_uverbs, which makes the nodes, is there: a later report says that the node has come, or
// that it never will. The caller holds d.mu.
func (d *Device) openable(t *moment) bool {
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
