package monitor

import (
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

const (
	// lateFrom is how long a call to the device has to last until the events that are read then count as late.
	lateFrom = int64(time.Second)
	// lateAfter is how long after such a call the events that it may have held up are read.
	lateAfter = int64(time.Second)
	// heldGap is the longest time between two such calls during which the device may have answered nothing: ports are
	// queried every 5 s by default.
	heldGap = int64(6 * time.Second)
)

// held is the last time in which calls to the device lasted for lateFrom or longer, CLOCK_MONOTONIC ns. to is 0 if
// there was none.
//
// The kernel queries a port and reads its tables before it passes some events of the port to processes (isPassedOn), and
// drops the event if that fails. While the device does not answer our calls it does not answer these either.
type held struct{ from, to int64 }

// note takes account of a call that began at mono and has ended.
func (h *held) note(mono, took int64) {
	if took < lateFrom {
		return
	}
	if h.to == 0 || mono-h.to > heldGap {
		h.from = mono
	}
	h.to = max(h.to, mono+took)
}

// isPassedOn reports whether the kernel queries the port before it passes on an event of type t (is_cache_update_event and
// ib_cache_event_task in drivers/infiniband/core/cache.c, since Linux 5.6). The gid_change that processes get comes from
// the kernel's own table, and waits for no query.
func isPassedOn(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventClientReregister:
		return true
	}
	return false
}

// lateBy returns for how long the device had not answered when an event was read, CLOCK_MONOTONIC ns: the event may have
// happened so much earlier. It returns 0 if the device had answered, and for events that wait for no query. The caller
// holds d.mu.
func (d *Device) lateBy(t verbs.EventType, read int64) int64 {
	if !isPassedOn(t) {
		return 0
	}
	h := d.held
	if d.led != nil {
		control, evidence := d.led.ControlCalls()
		for _, lane := range []ledger.ThreadCall{control, evidence} {
			switch lane.Call {
			case ledger.CallQueryPort, ledger.CallQueryQP, ledger.CallReadSysfs:
				h.note(lane.Since, read-lane.Since)
			}
		}
	}
	if h.to == 0 || read < h.from+lateFrom || read > h.to+lateAfter {
		return 0
	}
	return read - h.from
}
