package timeline

import (
	"time"

	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// unreadThreshold is the time that errors have to be unread before there is a record, because a working application reads
// them at once. The alert app-errors-unread waits longer, and rdma_host counts all unread errors.
const unreadThreshold = 10 * time.Second

// unreadState describes an application that does not read its errors.
type unreadState struct {
	began           time.Time
	read, discarded uint64 // at the last point
}

// recordedHang is the last record of a hang.
type recordedHang struct {
	began time.Time
	app   App
	Hang
}

// tracerState is the state of the tracer in its last point.
type tracerState struct {
	attached bool
	reason   status.Reason
	gaps     uint64
	blind    int64
}

// applicationChanges remembers the last records of hanging threads and of the tracer.
type applicationChanges struct {
	hangs  map[measure.Key]recordedHang
	tracer tracerState
}

// RegisterApplications is the Part for the events and hangs of applications and for the tracer. Unread errors are a Part of
// their own: RegisterUnreadErrors.
func RegisterApplications(c *Changes) {
	a := &applicationChanges{hangs: map[measure.Key]recordedHang{}}
	registerRecord(c, appEventRecord)
	registerRecord(c, a.hangRecord)
	registerRecord(c, a.tracerRecord)
}

// unreadErrors remembers the applications that do not read their errors.
type unreadErrors map[measure.Key]unreadState

// RegisterUnreadErrors is the Part for errors that applications do not read. Its points come only once per interval.
func RegisterUnreadErrors(c *Changes) { registerRecord(c, unreadErrors{}.unreadRecord) }

func appEventRecord(p *measure.AppEvent) (Record, bool) {
	r := appRecord(KindAppEvent, p, p.Device)
	r.Event, r.Count = p.Type.String(), p.Count
	r.App = newApp(App{Name: p.App, PID: p.PID, Unit: p.Unit, Object: p.Type.Scope().String(), Number: p.Number})
	return r, true
}

// appRecord returns a record of a point about an application. The name of the device comes from the tracer, so appRecord makes
// it safe for a terminal.
func appRecord(kind string, p measure.Point, device string) Record {
	return Record{Time: p.Time(), Kind: kind, Device: sanitize.Printable(device)}
}

// unreadRecord returns a record when errors have been unread for unreadThreshold, and when they are no longer unread.
func (a unreadErrors) unreadRecord(p *measure.AppAsync) (Record, bool) {
	last, was := a[p.Key()]
	is := p.UnreadErrors > 0 && time.Duration(p.UnreadAge) >= unreadThreshold
	if !is && !was {
		return Record{}, false
	}
	r := appRecord(KindAppUnread, p, p.Device)
	r.App = newApp(App{Name: p.App, Unit: p.Unit})
	r.Unread = &Unread{Errors: p.UnreadErrors}
	if !is {
		r.Unread.LastedNS, r.Unread.End = durationNS(last.began, p.At), last.howEnded(p)
		delete(a, p.Key())
		return r, true
	}
	r.Unread.AgeNS = p.UnreadAge
	if !was {
		last.began = p.At.Add(-time.Duration(p.UnreadAge))
	}
	last.read, last.discarded = p.Read, p.Discarded
	a[p.Key()] = last
	return r, !was
}

// howEnded returns Unread.End: whether events that are no longer unread were read or discarded. One application may have
// several processes. If some events were read and others discarded, the answer is not known and howEnded returns "".
func (u *unreadState) howEnded(p *measure.AppAsync) string {
	read, discarded := p.Read > u.read, p.Discarded > u.discarded
	switch {
	case read && !discarded:
		return EndRead
	case discarded && !read:
		return EndDiscarded
	}
	return ""
}

// hangRecord returns a record when a thread hangs, when the longest hanging thread or the number of threads changes, and when
// the hang ends.
func (a *applicationChanges) hangRecord(p *measure.AppHang) (Record, bool) {
	last, was := a.hangs[p.Key()]
	r := appRecord(KindAppHang, p, p.Device)
	if p.Ended() {
		delete(a.hangs, p.Key())
		r.App, r.Hang = newApp(last.app), &Hang{TID: last.TID, LastedNS: durationNS(last.began, p.At)}
		return r, was
	}
	now := recordedHang{
		began: p.At.Add(-time.Duration(p.Age)),
		app:   App{Name: p.App, PID: p.PID, Unit: p.Unit, Object: p.Object.String(), Number: p.Number},
		Hang:  Hang{Threads: p.Threads, TID: p.TID, Missing: p.Missing, AgeNS: p.Age, Proof: p.Proof},
	}
	if was && now.app == last.app && now.TID == last.TID && now.Threads == last.Threads {
		return Record{}, false
	}
	a.hangs[p.Key()] = now
	r.App, r.Hang = newApp(now.app), &now.Hang
	return r, true
}

// tracerRecord returns a record when the tracer is attached, even if the gap fell between two points. It also returns a record
// when the reason why the tracer is not attached changes.
func (a *applicationChanges) tracerRecord(p *measure.Tracer) (Record, bool) {
	last := a.tracer
	why := p.Worker.Reason
	a.tracer = tracerState{p.Attached, why, p.Gaps, p.Blind}
	r := Record{Time: p.At, Kind: KindTracer, Reason: why, Why: p.Worker.Message, Tracer: newTracer(p)}
	switch {
	case p.Attached:
		r.Tracer.BlindNS = max(0, p.Blind-last.blind)
		return r, !last.attached || p.Gaps != last.gaps
	case why == status.ReasonOK || why == status.ReasonStarting || why == last.reason:
		return Record{}, false
	}
	return r, true
}
