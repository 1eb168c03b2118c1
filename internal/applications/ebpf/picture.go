package ebpf

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// clockTick is the length of a clock tick in ns, which is the same for all processes (USER_HZ).
const clockTick = 10_000_000

// processCounts has the counts of all processes, both as last reported and as last read.
type processCounts struct {
	look       uint64 // number of the last reading of the maps that has ended
	othersSeen uint64 // board.Others at the last reading of that map

	accounts      map[traceProcess]*account
	nameless      map[uint32]*account // processes without space in the maps, by device
	pendingEvents []trace.Event       // events that did not fit into the previous Update; at most trace.MaxEvents
	lost          uint64              // events discarded because waiting was full
}

// account has the counts of a process.
type account struct {
	key        traceProcess
	reported   trace.App
	isReported bool
	now        trace.App
	unread     uint64 // events in its queues
	since      int64  // last time at which one of these queues was empty or read, CLOCK_MONOTONIC ns
	queues     uint32 // number of its open queues
	ended      bool
}

func newProcessCounts() *processCounts {
	return &processCounts{accounts: map[traceProcess]*account{}, nameless: map[uint32]*account{}}
}

// setApp sets the counts of a process.
func (p *processCounts) setApp(key traceProcess, a *traceApp) {
	of := p.accounts[key]
	if of == nil {
		of = &account{key: key}
		p.accounts[key] = of
	}
	of.setCounts(a, p.look)
	if of.now.Process.PID == 0 {
		of.now.Device = cString(a.Device[:])
		of.now.Process = identity.Process{
			PID: int(key.Tgid), Start: key.Start / clockTick, Comm: identity.CleanComm(cString(a.Comm[:])), Unit: unitOf(a),
		}
	}
}

// setNameless sets the counts of processes without space in the maps, for the device with an index.
func (p *processCounts) setNameless(device uint32, a *traceApp) {
	if sumOf(a.Queued[:]) == 0 && a.DestroyedUnacked == 0 && a.Read == [2]uint64{} {
		return
	}
	of := p.nameless[device]
	if of == nil {
		of = &account{}
		p.nameless[device] = of
	}
	of.setCounts(withoutFound(a), p.look)
}

// withoutFound returns counts without more reads than queued events. The others are of events that were queued before the programs were
// attached.
func withoutFound(a *traceApp) *traceApp {
	counts := *a
	var queued [2]uint64 // by class, as Read
	for typ, n := range a.Queued {
		if trace.IsError(verbs.EventType(typ)) {
			queued[1] += n
		} else {
			queued[0] += n
		}
	}
	for i := range counts.Read {
		counts.Read[i] = min(counts.Read[i], queued[i])
	}
	return &counts
}

// addQueue adds the unread events of a queue.
func (p *processCounts) addQueue(_ uint64, q *traceQueue) {
	of := p.accounts[q.Process]
	if n := q.Unread[0] + q.Unread[1]; of != nil && n > 0 {
		of.unread += n
		if since := int64(q.Since); of.since == 0 || since < of.since {
			of.since = since
		}
	}
}

// setCounts sets the counts of a process. A program may have changed the entry while it was copied, so that more events seem read than
// queued. setCounts then keeps the previous counts for a second. The change also increments board.Changes, so that the entry is read again.
func (a *account) setCounts(c *traceApp, look uint64) {
	a.unread, a.since = 0, 0
	next := trace.App{
		Device: a.now.Device, Process: a.now.Process,
		Read: c.Read[0] + c.Read[1], Discarded: c.Discarded[0] + c.Discarded[1], Skipped: c.Skipped[0] + c.Skipped[1],
		DestroyedUnacked: c.DestroyedUnacked, Delays: c.Delays, DelaySum: int64(c.DelaySum),
	}
	var errors, all uint64
	for typ := range next.Queued {
		next.Queued[typ], next.Found[typ] = c.Queued[typ], uint64(c.Found[typ])
		all += c.Queued[typ]
		if trace.IsError(verbs.EventType(typ)) {
			errors += c.Queued[typ]
		}
	}
	if longest := c.DelayMax[look&1]; longest.Look == look {
		next.DelayMax = int64(longest.Ns)
	}
	gone, errorsGone := next.Read+next.Discarded+next.Skipped, c.Read[1]+c.Discarded[1]+c.Skipped[1]
	if gone > all || errorsGone > errors || errors-errorsGone > all-gone {
		return
	}
	next.Unread, next.UnreadErrors = all-gone, errors-errorsGone
	a.now, a.queues = next, c.Queues
}

// markEnded marks processes that do not exist any more and have no open queue. An open queue of such a process belongs to a child that has
// inherited it, as with daemon(3), and ends with the last descriptor.
func (p *processCounts) markEnded(ended func(pid int) bool) {
	for key, a := range p.accounts {
		if a.queues == 0 && ended(int(key.Tgid)) {
			a.ended = true
		}
	}
}

// addEvents adds events to an Update. Events beyond the capacity of two Updates are discarded and counted as lost. The host emits an event
// without details if it arrives later than one Update after its count.
func (p *processCounts) addEvents(records []traceRecord, snap *trace.Update) {
	for _, r := range records {
		e := trace.Event{Type: verbs.EventType(r.Type), Number: r.Number, At: int64(r.Ns)}
		if a := p.accounts[r.Process]; a != nil {
			e.Device, e.Process = a.now.Device, a.now.Process
		}
		p.pendingEvents = append(p.pendingEvents, e)
	}
	// Different processors may have recorded events in another order than their times.
	slices.SortStableFunc(p.pendingEvents, func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
	n := min(len(p.pendingEvents), trace.MaxEvents)
	kept := min(len(p.pendingEvents), n+trace.MaxEvents)
	p.lost += uint64(len(p.pendingEvents) - kept)
	snap.Events, p.pendingEvents = p.pendingEvents[:n:n], slices.Clone(p.pendingEvents[n:kept])
	snap.Lost += p.lost
}

// addApps adds the changed processes to an Update. It removes processes that have ended, and returns their keys.
func (p *processCounts) addApps(now int64, snap *trace.Update) (ended []traceProcess) {
	for _, device := range sortedKeys(p.nameless) {
		p.nameless[device].reportTo(now, snap)
	}
	for key, a := range p.accounts {
		if len(snap.Apps) >= trace.MaxApps {
			break
		}
		// The last changes of a process that has closed its last queue were reported a second ago.
		over := a.ended || a.queues == 0 && sumOf(a.now.Queued[:]) > 0 && !a.hasChanged()
		if over {
			a.discardUnread()
			ended = append(ended, key)
			delete(p.accounts, key)
		}
		a.reportTo(now, snap)
	}
	snap.Processes = len(p.accounts)
	slices.SortFunc(snap.Apps, func(a, b trace.App) int {
		return cmp.Or(cmp.Compare(a.Process.PID, b.Process.PID), cmp.Compare(a.Process.Start, b.Process.Start), cmp.Compare(a.Device, b.Device))
	})
	return ended
}

// discardUnread counts the unread events as discarded with their queue.
func (a *account) discardUnread() {
	a.now.Discarded += a.now.Unread
	a.now.Unread, a.now.UnreadErrors = 0, 0
	a.now.Ended = true
}

// hasChanged reports whether the counts differ from the reported ones.
func (a *account) hasChanged() bool { return !a.isReported || a.now != a.reported }

func (a *account) reportTo(now int64, snap *trace.Update) {
	a.now.UnreadSince = 0
	if a.now.Unread > 0 {
		// The maps are not read at one time: the queue may have been read when it was still empty.
		a.now.UnreadSince = cmp.Or(a.since, a.reported.UnreadSince, now)
	}
	if !a.hasChanged() {
		return
	}
	snap.Apps = append(snap.Apps, a.now)
	a.now.DelayMax = 0 // it belongs to one look, and the next look may not read the maps
	a.reported, a.isReported = a.now, true
}

// cString converts a C string.
func cString(s []int8) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// unitOf returns the unit of the cgroup in which a process was when it first appeared. Only the innermost levels of the cgroup's path are known.
func unitOf(a *traceApp) string {
	path := ""
	for i := range a.Cgroup {
		if level := cString(a.Cgroup[i][:]); level != "" {
			path = "/" + level + path
		}
	}
	return identity.Unit("0::" + path + "\n")
}

func sumOf(of []uint64) (n uint64) {
	for _, one := range of {
		n += one
	}
	return n
}

func sortedKeys[V any](m map[uint32]V) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
