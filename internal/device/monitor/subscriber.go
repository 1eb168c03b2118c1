package monitor

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// Update is a message to a subscriber about a device. One of Item, Port, Ledger and Gone is set.
type Update struct {
	Device string
	Offset int64 // the wall clock minus CLOCK_MONOTONIC, in ns

	Item   *verbs.Item      // from the worker that has the device open; the Monitor has already handled it
	Port   *measure.Port    // the port at the end of an interval, and whenever its state may have changed
	Ledger *ledger.Contents // the counts of the running worker so far
	Ended  bool             // with Ledger: the worker has ended and counts nothing more
	Gone   bool             // the device is gone or released
}

// publish passes an update to all subscribers. The caller holds d.mu.
func (d *Device) publish(u Update, t *moment) {
	u.Device, u.Offset = d.name, t.offset
	for _, take := range d.cfg.Subscribers {
		take(u)
	}
}
