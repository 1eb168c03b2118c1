package monitor

import (
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

const (
	// stallMinimum is the duration of a call to the device from which events that are read meanwhile count as late.
	stallMinimum = int64(time.Second)
	// releaseTime is the time after the end of such a call within which the events that it may have delayed are read.
	releaseTime = int64(time.Second)
	// stallGap is the longest time between two such calls that counts as one stall: ports are queried every 5 s by
	// default, so that the device may not have been asked in between.
	stallGap = int64(6 * time.Second)
)

// stall is the last period in which calls to the device lasted for stallMinimum or longer, CLOCK_MONOTONIC ns. to is 0 if
// there was none.
//
// The kernel queries a port and reads its tables before it passes some events of the port to processes (waitsForQuery),
// and drops the event if that fails. While the device does not answer the plugin's calls, it does not answer the kernel's.
type stall struct{ from, to int64 }

// recordCall extends the stall by a call that began at mono and took took ns, or begins a new stall, if the call was long enough.
func (h *stall) recordCall(mono, took int64) {
	if took < stallMinimum {
		return
	}
	if h.to == 0 || mono-h.to > stallGap {
		h.from = mono
	}
	h.to = max(h.to, mono+took)
}

// waitsForQuery reports whether the kernel queries the port before it passes on an event of type t (is_cache_update_event and
// ib_cache_event_task in drivers/infiniband/core/cache.c, since Linux 5.6). The gid_change that processes receive comes from
// the kernel's own table and waits for no query.
func waitsForQuery(t verbs.EventType) bool {
	switch t {
	case verbs.EventPortErr, verbs.EventPortActive, verbs.EventLIDChange, verbs.EventPKeyChange, verbs.EventClientReregister:
		return true
	}
	return false
}

// eventLateness returns for how long, in ns, the device had not answered when an event was read at read, CLOCK_MONOTONIC
// ns: the event may have happened that much earlier. It returns 0 if the device had answered, and for events that wait for
// no query. The caller holds d.mu.
func (d *Device) eventLateness(t verbs.EventType, read int64) int64 {
	if !waitsForQuery(t) {
		return 0
	}
	h := d.stall
	if d.ledger != nil {
		control, evidence := d.ledger.ControlCalls()
		for _, running := range []ledger.ThreadCall{control, evidence} {
			switch running.Call {
			case ledger.CallQueryPort, ledger.CallQueryQP, ledger.CallReadSysfs:
				h.recordCall(running.Since, read-running.Since)
			}
		}
	}
	if h.to == 0 || read < h.from+stallMinimum || read > h.to+releaseTime {
		return 0
	}
	return read - h.from
}
