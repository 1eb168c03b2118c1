package timeline

import (
	"time"

	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// unreadRecorded is how long errors wait before that is a record: an application that works reads them at once. The alert
// app-errors-unread waits longer, and rdma_host counts all that wait.
const unreadRecorded = 10 * time.Second

// unread is an application that does not read its errors.
type unread struct {
	began           time.Time
	read, discarded uint64 // by the last look
}

// hanging is the last record of a hang.
type hanging struct {
	began time.Time
	app   App
	Hang
}

// traced is the tracer in its last point.
type traced struct {
	attached bool
	reason   status.Reason
	gaps     uint64
	blind    int64
}

// applications remembers what was recorded last of the threads that hang, and of the tracer.
type applications struct {
	hangs  map[measure.Key]hanging
	tracer traced
}

// OfApplications is the Part of what applications experience, except for the errors that they do not read.
func OfApplications(c *Changes) {
	a := &applications{hangs: map[measure.Key]hanging{}}
	register(c, appEvent)
	register(c, a.hang)
	register(c, a.trace)
}

// readers remembers the applications that do not read their errors.
type readers map[measure.Key]unread

// OfUnreadErrors is the Part of errors that applications do not read. Its points come at intervals alone.
func OfUnreadErrors(c *Changes) { register(c, readers{}.unread) }

func appEvent(p *measure.AppEvent) (Record, bool) {
	r := appRecord(KindAppEvent, p, p.Device)
	r.Event, r.Count = p.Type.String(), p.Count
	r.App = newApp(App{Name: p.App, PID: p.PID, Unit: p.Unit, Object: p.Type.Scope().String(), Number: p.Number})
	return r, true
}

// appRecord returns a record with the device's name as the tracer has it, which a terminal must not obey.
func appRecord(kind string, p measure.Point, device string) Record {
	return Record{Time: p.Time(), Kind: kind, Device: sanitize.Printable(device)}
}

// unread is news when errors have not been read for unreadRecorded, and when that is over.
func (a readers) unread(p *measure.AppAsync) (Record, bool) {
	last, was := a[p.Key()]
	is := p.UnreadErrors > 0 && time.Duration(p.UnreadAge) >= unreadRecorded
	if !is && !was {
		return Record{}, false
	}
	r := appRecord(KindAppUnread, p, p.Device)
	r.App = newApp(App{Name: p.App, Unit: p.Unit})
	r.Unread = &Unread{Errors: p.UnreadErrors}
	if !is {
		r.Unread.LastedNS, r.Unread.End = int64(p.At.Sub(last.began)), last.end(p)
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

// end returns what has become of events that are no longer unread. Several processes may be one application, so that
// where some events were read and others discarded it is not known which is true of these.
func (u *unread) end(p *measure.AppAsync) string {
	read, discarded := p.Read > u.read, p.Discarded > u.discarded
	switch {
	case read && !discarded:
		return EndRead
	case discarded && !read:
		return EndDiscarded
	}
	return ""
}

// hang is news when a thread hangs, when another one does or their number changes, and when it is over.
func (a *applications) hang(p *measure.AppHang) (Record, bool) {
	last, was := a.hangs[p.Key()]
	r := appRecord(KindAppHang, p, p.Device)
	if p.Ended() {
		delete(a.hangs, p.Key())
		r.App, r.Hang = newApp(last.app), &Hang{TID: last.TID, LastedNS: int64(p.At.Sub(last.began))}
		return r, was
	}
	now := hanging{
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

// trace is news when the tracer is attached, also again after a gap between two points, and when it is not and why.
func (a *applications) trace(p *measure.Tracer) (Record, bool) {
	last := a.tracer
	why := p.Worker.Reason
	a.tracer = traced{p.Attached, why, p.Gaps, p.Blind}
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
