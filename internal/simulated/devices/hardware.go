package devices

import (
	"fmt"
	"math"
	"sync"
	"syscall"

	"rdma_events/internal/device/verbs"
)

// hardware is one device of the world, open or not. Times are CLOCK_MONOTONIC in ns.
type hardware struct {
	spec
	faults   map[faultKind][]fault // not changed after Load
	slowness []commandEntry        // not changed after Load
	apps     []appEntry            // not changed after Load
	notices  []eventEntry          // events of the device itself; not changed after Load

	mu      sync.Mutex // guards the members below, and members of device that refer to it
	entries []entry
	ports   []link
	gone    int // number of removals in effect
	open    map[*device]struct{}
}

// entry is one entry of the timeline and its position.
type entry struct {
	schedule
	due     int64 // time of its next occurrence
	lasting bool  // has an effect even if no handle has the device open
	do      func(due int64)
}

// allLanes is the number of lanes of a whole link in all profiles with lanes.
const allLanes = 4

// link is the state of a port's link.
type link struct {
	portSpec
	down     int    // entries of the scenario that hold it down
	held     bool   // SetLink holds it down
	why      string // cause of its last down state
	isUp     bool
	lost     uint64 // number of times it went down
	changes  uint64 // number of times it went down or came up
	lanes    int    // number of lanes when it last came up; 0: all
	counters verbs.Counters
	table    []verbs.GID
}

// pending is a run of equal events in a queue. If signal is set, it is a crash instead.
type pending struct {
	typ    verbs.EventType
	port   int
	count  uint64
	due    int64 // time of the first event
	signal syscall.Signal
	read   bool // already counted as read
}

func newHardware(number int, s spec) *hardware {
	h := &hardware{spec: s, faults: map[faultKind][]fault{}, open: map[*device]struct{}{}}
	for i, p := range s.ports {
		h.ports = append(h.ports, link{portSpec: p, isUp: true, table: portGIDs(number, i+1, p.gids, &p.attr),
			counters: newCounters(p.attr.LinkLayer)})
	}
	return h
}

func (h *hardware) addEntry(s schedule, lasting bool, do func(due int64)) {
	h.entries = append(h.entries, entry{schedule: s, due: s.next(math.MinInt64), lasting: lasting, do: do})
}

// advance executes all entries that are due. Like the kernel, it drops events while no
// handle has the device open.
func (h *hardware) advance(now int64) {
	if len(h.open) == 0 {
		h.skipDue(now)
	}
	for {
		e := h.firstEntry()
		if e == nil || e.due > now {
			return
		}
		due := e.due
		e.due = e.next(due)
		e.do(due)
	}
}

func (h *hardware) skipDue(now int64) {
	for i := range h.entries {
		if e := &h.entries[i]; !e.lasting && e.due <= now {
			e.due = e.next(now)
		}
	}
}

// firstEntry returns the entry that is due next, or nil if the timeline is empty.
func (h *hardware) firstEntry() *entry {
	var next *entry
	for i := range h.entries {
		if e := &h.entries[i]; next == nil || e.due < next.due {
			next = e
		}
	}
	if next == nil || next.due == never {
		return nil
	}
	return next
}

// nextDue returns the time at which the next entry is due, or never.
func (h *hardware) nextDue() int64 {
	if e := h.firstEntry(); e != nil {
		return e.due
	}
	return never
}

// emit queues p for every handle that has the device open.
func (h *hardware) emit(p pending) {
	if !h.attr.EventsSupported && p.signal == 0 {
		return
	}
	for d := range h.open {
		d.enqueue(p)
	}
}

// updateLink updates a port after a change of its link, and emits the events of the
// change.
func (h *hardware) updateLink(port int, due int64) {
	l := &h.ports[port-1]
	isUp := l.down == 0 && !l.held
	if isUp == l.isUp {
		return
	}
	l.isUp = isUp
	l.changes++
	typ := verbs.EventPortActive
	if !isUp {
		typ = verbs.EventPortErr
		l.lost++
	}
	if h.speedEvents {
		h.emit(pending{typ: verbs.EventDeviceSpeedChange, count: 1, due: due})
	}
	h.emit(pending{typ: typ, port: port, count: max(h.portEvents, 1), due: due})
}

// remove removes the device from every handle that has it open. If the driver can
// disassociate devices, the last event of a context is device_fatal. Otherwise a context
// gets no further events.
func (h *hardware) remove(due int64) {
	h.gone++
	if h.disassociates {
		h.emit(pending{typ: verbs.EventDeviceFatal, count: 1, due: due})
	}
	for d := range h.open {
		d.gone = true
	}
	clear(h.open)
}

// fault returns the fault of a kind that is in effect now, and its end. A fault with port
// 0 or vector -1 applies to all ports or vectors. Pass port 0 if the kind has no port.
func (h *hardware) fault(kind faultKind, port, vector int, now int64) (*fault, int64) {
	for i := range h.faults[kind] {
		f := &h.faults[kind][i]
		if f.port != 0 && f.port != port || f.vector >= 0 && f.vector != vector {
			continue
		}
		if end, ok := f.active(now); ok {
			return f, end
		}
	}
	return nil, 0
}

// isPresent reports whether the device is present at a time.
func (h *hardware) isPresent(at int64) bool {
	f, _ := h.fault(removed, 0, 0, at)
	return f == nil
}

// nameAt returns the device's name at a time. The latest renaming in effect determines it.
func (h *hardware) nameAt(at int64) string {
	name, since := h.attr.Name, int64(math.MinInt64)
	for _, f := range h.faults[renamed] {
		if _, ok := f.active(at); !ok {
			continue
		}
		if start, _ := f.last(at); start >= since {
			name, since = f.to, start
		}
	}
	return name
}

// query returns the current attributes of a port.
func (l *link) query() verbs.PortAttr {
	const polling, linkUp = 2, 5
	attr := l.attr
	attr.State, attr.Phys = verbs.PortActive, linkUp
	if !l.isUp {
		attr.State, attr.Phys = verbs.PortDown, polling
		attr.EffectiveGbps = 0
	}
	if l.lanes > 0 && attr.Width == fmt.Sprintf("%dx", allLanes) {
		attr.Width = fmt.Sprintf("%dx", l.lanes)
		attr.RateGbps *= float64(l.lanes) / allLanes
		attr.EffectiveGbps *= float64(l.lanes) / allLanes
	}
	if attr.HasLinkDowned && !l.stuckCounter {
		attr.LinkDowned = l.lost
	}
	return attr
}
