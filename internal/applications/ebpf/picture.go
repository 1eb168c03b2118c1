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

// picture has the counts of all processes, as they were reported and as they are.
type picture struct {
	look       uint64 // the number of the look that is over, of those that read the maps
	othersSeen uint64 // board.Others when the map was read

	accounts map[traceProcess]*account
	nameless map[uint32]*account // by device
	waiting  []trace.Event       // that the Snapshot before had no room for; at most trace.MaxEvents
	lost     uint64              // events that were dropped because waiting was full
}

// account is what is known of a process.
type account struct {
	key        traceProcess
	reported   trace.App
	isReported bool
	now        trace.App
	unread     uint64 // in its queues
	since      int64
	queues     uint32 // that it has open
	ended      bool
}

func newPicture() *picture {
	return &picture{accounts: map[traceProcess]*account{}, nameless: map[uint32]*account{}}
}

// app takes the counts of a process.
func (p *picture) app(key traceProcess, a *traceApp) {
	of := p.accounts[key]
	if of == nil {
		of = &account{key: key}
		p.accounts[key] = of
	}
	of.take(a, p.look)
	if of.now.Process.PID == 0 {
		of.now.Device = text(a.Device[:])
		of.now.Process = identity.Process{
			PID: int(key.Tgid), Start: key.Start / clockTick, Comm: identity.CleanComm(text(a.Comm[:])), Unit: unit(a),
		}
	}
}

// other takes the counts of what found no place, on the device of an index.
func (p *picture) other(device uint32, a *traceApp) {
	if sum(a.Queued[:]) == 0 && a.DestroyedUnacked == 0 && a.Read == [2]uint64{} {
		return
	}
	of := p.nameless[device]
	if of == nil {
		of = &account{}
		p.nameless[device] = of
	}
	of.take(a, p.look)
}

// queue takes what a queue has unread.
func (p *picture) queue(_ uint64, q *traceQueue) {
	of := p.accounts[q.Process]
	if n := q.Unread[0] + q.Unread[1]; of != nil && n > 0 {
		of.unread += n
		if since := int64(q.Since); of.since == 0 || since < of.since {
			of.since = since
		}
	}
}

// take takes new counts. The entry may have been written meanwhile: what was read is then more than what was queued, and
// all counts of the look before are kept for a second. What has written it then moves board.Changes.
func (a *account) take(c *traceApp, look uint64) {
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

// sweep ends the processes that are not there any more and have no queue open. An open queue belongs to a child that the
// process has left it to, as with daemon(3): it ends with the last descriptor.
func (p *picture) sweep(ended func(pid int) bool) {
	for key, a := range p.accounts {
		if a.queues == 0 && ended(int(key.Tgid)) {
			a.ended = true
		}
	}
}

// events adds the events since the Snapshot before. What a storm has above two Snapshots is dropped and counted as lost: the
// host emits an event that is not in the next Snapshot but one as a count without details.
func (p *picture) events(records []traceRecord, snap *trace.Update) {
	for _, r := range records {
		e := trace.Event{Type: verbs.EventType(r.Type), Number: r.Number, At: int64(r.Ns)}
		if a := p.accounts[r.Process]; a != nil {
			e.Device, e.Process = a.now.Device, a.now.Process
		}
		p.waiting = append(p.waiting, e)
	}
	// Two processors may have had the same moment in another order.
	slices.SortStableFunc(p.waiting, func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
	n := min(len(p.waiting), trace.MaxEvents)
	kept := min(len(p.waiting), n+trace.MaxEvents)
	p.lost += uint64(len(p.waiting) - kept)
	snap.Events, p.waiting = p.waiting[:n:n], slices.Clone(p.waiting[n:kept])
	snap.Lost += p.lost
}

// apps adds what has changed, and returns the processes that have ended: they are forgotten.
func (p *picture) apps(now int64, snap *trace.Update) (ended []traceProcess) {
	for _, device := range keysOf(p.nameless) {
		p.nameless[device].report(now, snap)
	}
	for key, a := range p.accounts {
		if len(snap.Apps) >= trace.MaxApps {
			break
		}
		// A process that has closed its last queue has reported everything a second ago.
		over := a.ended || a.queues == 0 && sum(a.now.Queued[:]) > 0 && !a.differs()
		if over {
			a.end()
			ended = append(ended, key)
			delete(p.accounts, key)
		}
		a.report(now, snap)
	}
	snap.Processes = len(p.accounts)
	slices.SortFunc(snap.Apps, func(a, b trace.App) int {
		return cmp.Or(cmp.Compare(a.Process.PID, b.Process.PID), cmp.Compare(a.Process.Start, b.Process.Start), cmp.Compare(a.Device, b.Device))
	})
	return ended
}

// end counts what is unread as gone with its queue.
func (a *account) end() {
	a.now.Discarded += a.now.Unread
	a.now.Unread, a.now.UnreadErrors = 0, 0
	a.now.Ended = true
}

// differs reports whether there is something to report.
func (a *account) differs() bool { return !a.isReported || a.now != a.reported }

func (a *account) report(now int64, snap *trace.Update) {
	a.now.UnreadSince = 0
	if a.now.Unread > 0 {
		// A queue that was just filled may have been read before its process was.
		a.now.UnreadSince = cmp.Or(a.since, a.reported.UnreadSince, now)
	}
	if !a.differs() {
		return
	}
	snap.Apps = append(snap.Apps, a.now)
	a.now.DelayMax = 0 // it is of one look, and the next one may find nothing to read
	a.reported, a.isReported = a.now, true
}

// text returns a string of C.
func text(s []int8) string {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// unit returns the unit of the cgroup that a process was in when it was first seen. Only its innermost levels are known.
func unit(a *traceApp) string {
	path := ""
	for i := range a.Cgroup {
		if level := text(a.Cgroup[i][:]); level != "" {
			path = "/" + level + path
		}
	}
	return identity.Unit("0::" + path + "\n")
}

func sum(of []uint64) (n uint64) {
	for _, one := range of {
		n += one
	}
	return n
}

func keysOf[V any](m map[uint32]V) []uint32 {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
