package history

import (
	"cmp"
	"io"
	"slices"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/trace"
	"rdma_events/internal/verbs"
)

// Apps is what a host reports of one application on the device sim0, and of its tracer. It is written and
// not simulated. All times are since Start.
type Apps struct {
	Host string
	Tags map[string]string // besides host
	App  string            // "": python3

	Start, End time.Time
	Interval   time.Duration

	Events []AppEvent // in their order
	Hang   Span       // a thread hangs, as the tracer reports it
	Blind  Span       // the tracer is not attached
}

// AppEvent is an event of a queue pair of the application.
type AppEvent struct {
	Type verbs.EventType
	At   time.Duration
	Read time.Duration // when it is read; 0: never
}

// Span is a time from From until before To.
type Span struct{ From, To time.Duration }

// Has reports whether a time is in the span.
func (s Span) Has(at time.Duration) bool { return s.From <= at && at < s.To }

// length returns how much of the span is over.
func (s Span) length(at time.Duration) time.Duration { return max(0, min(at, s.To)-s.From) }

const (
	appPID  = 4711
	appUnit = "job_1870"
	appQP   = 284
)

// Write writes the points in their order. The error is that of w.
func (a *Apps) Write(w io.Writer) error {
	tags := map[string]string{"host": a.Host}
	for name, value := range a.Tags {
		tags[name] = value
	}
	out, err := NewRecording(w, tags)
	if err != nil {
		return err
	}
	events := a.Events
	for since := a.Interval; !a.Start.Add(since).After(a.End); since += a.Interval {
		for len(events) > 0 && events[0].At <= since {
			out.point(a.event(&events[0]))
			events = events[1:]
		}
		for _, p := range a.interval(since) {
			out.point(p)
		}
	}
	return out.err
}

func (r *Recording) point(p measure.Point) {
	p.Lines(func(l measure.Line) {
		if l.Name == "rdma_host" { // the rest of it is the plugin's own
			for name := range l.Fields {
				if !slices.Contains([]string{"app_errors", "app_hangs", "app_unread_errors"}, name) {
					delete(l.Fields, name)
				}
			}
		}
		r.AddFields(l.Name, l.Fields, l.Tags, p.Time())
	})
}

func (a *Apps) event(e *AppEvent) measure.Point {
	at := a.Start.Add(e.At)
	return &measure.AppEvent{
		Device: "sim0", App: cmp.Or(a.App, "python3"), Type: e.Type, Count: 1, Total: a.counts(e.At).Types[e.Type], First: at, PID: appPID, Number: appQP,
		Unit: appUnit, At: at,
	}
}

// counts returns the counters and what is unread at a time.
func (a *Apps) counts(since time.Duration) *measure.AppAsync {
	p := &measure.AppAsync{Device: "sim0", App: cmp.Or(a.App, "python3"), Unit: appUnit, Attached: !a.Blind.Has(since), At: a.Start.Add(since)}
	for _, e := range a.Events {
		switch {
		case e.At > since:
			continue
		case e.Read > 0 && e.Read <= since:
			p.Read++
		default:
			p.Unread++
			p.UnreadAge = max(p.UnreadAge, int64(since-e.At))
			if trace.IsError(e.Type) {
				p.UnreadErrors++
			}
		}
		p.Types[e.Type]++
		p.Processes = 1
	}
	return p
}

// interval returns the points of an interval. The series of an application's events begins with the first one.
func (a *Apps) interval(since time.Duration) []measure.Point {
	at, async := a.Start.Add(since), a.counts(since)
	apps := &measure.HostApps{UnreadErrors: async.UnreadErrors}
	for t, n := range async.Types {
		if trace.IsError(verbs.EventType(t)) {
			apps.Errors += n
		}
	}
	points := []measure.Point{a.objects(async), a.tracer(since), &measure.Host{Apps: apps, At: at}}
	if async.Processes > 0 {
		points = append(points, async)
	}
	if a.Hang.Has(since) || a.Hang.Has(since-a.Interval) {
		h := &measure.AppHang{
			Device: "sim0", App: cmp.Or(a.App, "python3"), Object: verbs.ScopeQP, Age: int64(a.Hang.length(since)), Missing: 1, PID: appPID, TID: appPID + 2,
			Number: appQP, Unit: appUnit, Proof: trace.ProofAsleep, At: at,
		}
		if a.Hang.Has(since) {
			h.Threads, apps.Hangs = 1, 1
		}
		points = append(points, h)
	}
	return points
}

// objects are 520 queue pairs, of which one is in state error for each error that is unread.
func (a *Apps) objects(async *measure.AppAsync) measure.Point {
	held := func(n int64) measure.Held { return measure.Held{Count: n, Known: true} }
	p := &measure.App{
		Device: "sim0", App: cmp.Or(a.App, "python3"), Unit: appUnit, Processes: held(8), Contexts: held(8), PDs: held(8), CQs: held(16), SRQs: held(0),
		QPs: held(520), At: async.At,
	}
	for i := range p.States {
		p.States[i] = held(0)
	}
	const rts, failed = 3, 6
	bad := int64(async.UnreadErrors)
	p.States[rts], p.States[failed] = held(520-bad), held(bad)
	return p
}

func (a *Apps) tracer(since time.Duration) measure.Point {
	p := &measure.Tracer{
		Attached: true, Hooks: "kprobe", Worker: status.Status{State: status.StateRunning, Reason: status.ReasonOK}, Processes: 1,
		Blind: int64(a.Blind.length(since)), Load: int64(time.Second), CPU: int64(since / 1000), RSS: 12 << 20, At: a.Start.Add(since),
	}
	if a.Blind.Has(since) {
		p.Attached, p.Worker = false, status.Status{State: status.StateBackingOff, Reason: status.ReasonNoPermission}
	}
	if a.Blind.To > 0 && since >= a.Blind.From {
		p.Gaps, p.Lost, p.Full = 1, 2, 1
	}
	return p
}
