package timeline

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Kinds of records about applications.
const (
	KindAppEvent  = "app_event"  // an asynchronous event of an application
	KindAppUnread = "app_unread" // an application stops or resumes reading its errors
	KindAppHang   = "app_hang"   // an application starts or stops hanging in the destruction of an object
	KindAppHolds  = "app_holds"  // a unit starts or stops holding objects of a device; only in stored records
	KindTracer    = "tracer"     // the tracer starts or stops observing the events of applications
)

func appKinds() []kind {
	return []kind{
		{
			name:    KindAppEvent,
			isWhole: func(r *Record) bool { return r.App != nil },
			words: func(s Style, r *Record) wording {
				detail := s.Paint(colourOf(r.Event), r.Event)
				if r.App.Number > 0 {
					detail += "  " + r.App.objectLabel()
				}
				if r.Count > 1 {
					detail += fmt.Sprintf("  (%d times)", r.Count)
				}
				return r.App.wordingOf(detail)
			},
			yields: true,
		},
		{
			name:    KindAppUnread,
			isWhole: func(r *Record) bool { return r.App != nil && r.Unread != nil },
			words: func(s Style, r *Record) wording {
				return r.App.wordingOf(s.Paint(colourIf(r.Unread.Ended(), green, yellow), r.Unread.line()))
			},
			yields: true,
		},
		{
			name:    KindAppHang,
			isWhole: func(r *Record) bool { return r.App != nil && r.Hang != nil },
			words: func(s Style, r *Record) wording {
				return r.App.wordingOf(s.Paint(colourIf(r.Hang.Ended(), green, Red), r.Hang.line(r.App)))
			},
			yields: true,
		},
		{
			name:    KindAppHolds,
			isWhole: func(r *Record) bool { return r.App != nil && r.Held != nil },
			words: func(_ Style, r *Record) wording {
				return wording{strings.TrimSpace(r.App.label() + "  " + r.Held.line(r.Device)), "", Dim}
			},
			yields: true,
		},
		{
			name:    KindTracer,
			isWhole: func(r *Record) bool { return r.Tracer != nil },
			words: func(_ Style, r *Record) wording {
				return wording{r.Tracer.line(r.Reason), r.Why, colourIf(r.Tracer.Attached, Dim, Red)}
			},
		},
	}
}

// App is the application that a record is about, and the object that is affected.
type App struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitempty"`
	Unit   string `json:"unit,omitempty"`
	Object string `json:"object,omitempty"` // cq, qp, srq, wq or device
	Number uint32 `json:"number,omitempty"` // of the object
}

// newApp returns a copy of a that is safe for a terminal. A program can choose any name.
func newApp(a App) *App {
	makePrintable(reflect.ValueOf(&a))
	return &a
}

// label returns the application in words, such as "python3[4711] pod_3f2a".
func (a *App) label() string {
	text := a.Name
	if a.PID > 0 {
		text += fmt.Sprintf("[%d]", a.PID)
	}
	if a.Unit != "" {
		text += " " + a.Unit
	}
	return text
}

// wordingOf returns the wording of what happened to the application. The label may be longer than its column.
func (a *App) wordingOf(what string) wording {
	return wording{fmt.Sprintf("%-19s ", a.label()), what, plain}
}

// objectLabel returns the object in words, such as "qp 284".
func (a *App) objectLabel() string {
	if a.Number == 0 {
		return a.Object
	}
	return fmt.Sprintf("%s %d", a.Object, a.Number)
}

// Unread describes the errors that an application does not read.
type Unread struct {
	Errors uint64 `json:"errors"`           // unread now
	AgeNS  int64  `json:"age_ns,omitempty"` // time since the queue was last read; 0: the errors are no longer unread
	// LastedNS is the time that they were unread. End is EndRead, EndDiscarded, or "" if it is not certain which. Both are
	// set only in the record of the end.
	LastedNS int64  `json:"lasted_ns,omitempty"`
	End      string `json:"end,omitempty"`
}

// Values of Unread.End.
const (
	EndRead      = "read"
	EndDiscarded = "discarded" // unread, together with the object or the file descriptor
)

// Ended reports whether the errors are no longer unread.
func (u *Unread) Ended() bool { return u.AgeNS == 0 }

// line returns the change in words, such as "not read for 10s".
func (u *Unread) line() string {
	if u.Ended() {
		how := map[string]string{EndRead: "read", EndDiscarded: "discarded unread", "": "no longer unread,"}[u.End]
		return strings.TrimSpace(how + " after " + formatSeconds(u.LastedNS))
	}
	text := "not read for " + formatSeconds(u.AgeNS)
	if u.Errors > 1 {
		text += fmt.Sprintf(", %d errors", u.Errors)
	}
	return text
}

// Hang describes threads that hang in the destruction of an object. All fields except Threads describe the thread that has
// waited longest.
type Hang struct {
	Threads  int         `json:"threads"` // 0: the hang has ended
	TID      int         `json:"tid,omitempty"`
	Missing  uint32      `json:"missing,omitempty"` // missing acknowledgements
	AgeNS    int64       `json:"age_ns,omitempty"`
	LastedNS int64       `json:"lasted_ns,omitempty"` // set only in the record of the end
	Proof    trace.Proof `json:"proof,omitempty"`     // asleep or waiting
}

// Ended reports whether the hang has ended.
func (h *Hang) Ended() bool { return h.Threads == 0 }

// line returns the change in words, such as "hangs in destroy of qp 284, 1 ack missing".
func (h *Hang) line(a *App) string {
	if h.Ended() {
		return "no longer hangs in destroy of " + a.objectLabel() + ", after " + formatSeconds(h.LastedNS)
	}
	text := "hangs in destroy of " + a.objectLabel() + ", " + countOf(int(h.Missing), "ack") + " missing"
	if h.Threads > 1 {
		text += fmt.Sprintf(", %d threads", h.Threads)
	}
	return text
}

// Tracer tells whether the tracer observes the events of applications.
type Tracer struct {
	Attached bool   `json:"attached"`
	Hooks    string `json:"hooks,omitempty"`
	Missing  int    `json:"hooks_missing,omitempty"`
	BlindNS  int64  `json:"blind_ns,omitempty"` // length of the gap before this attachment
}

func newTracer(p *measure.Tracer) *Tracer {
	t := &Tracer{Attached: p.Attached}
	if p.Attached {
		t.Hooks, t.Missing = p.Hooks, p.Missing
	}
	makePrintable(reflect.ValueOf(t))
	return t
}

// line returns the change in words, such as "applications traced: kprobe".
func (t *Tracer) line(reason status.Reason) string {
	if !t.Attached {
		return "applications not traced: " + string(reason)
	}
	text := "applications traced: " + t.Hooks
	if t.Missing > 0 {
		text += ", " + countOf(t.Missing, "hook") + " missing"
	}
	if t.BlindNS > 0 {
		text += ", not for " + Duration(t.BlindNS) + " before"
	}
	return text
}

// countOf returns a number of things in words, such as "1 ack" or "2 acks".
func countOf(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// formatSeconds formats a duration in ns that is known only to the second.
func formatSeconds(ns int64) string { return time.Duration(ns).Truncate(time.Second).String() }
