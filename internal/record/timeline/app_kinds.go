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

// The kinds of a record about applications.
const (
	KindAppEvent  = "app_event"  // an asynchronous event of an application
	KindAppUnread = "app_unread" // an application does not read its errors, or no longer so
	KindAppHang   = "app_hang"   // an application hangs in the destruction of an object, or no longer
	KindAppHolds  = "app_holds"  // a unit holds objects of a device, or no longer; in records that are kept alone
	KindTracer    = "tracer"     // the events of applications are seen, or not
)

func appKinds() []kind {
	return []kind{
		{
			name:    KindAppEvent,
			isWhole: func(r *Record) bool { return r.App != nil },
			words: func(s Style, r *Record) wording {
				detail := s.Paint(colourOf(r.Event), r.Event)
				if r.App.Number > 0 {
					detail += "  " + r.App.what()
				}
				if r.Count > 1 {
					detail += fmt.Sprintf("  (%d times)", r.Count)
				}
				return r.App.experiences(detail)
			},
			yields: true,
		},
		{
			name:    KindAppUnread,
			isWhole: func(r *Record) bool { return r.App != nil && r.Unread != nil },
			words: func(s Style, r *Record) wording {
				return r.App.experiences(s.Paint(colourIf(r.Unread.Ended(), green, yellow), r.Unread.line()))
			},
			yields: true,
		},
		{
			name:    KindAppHang,
			isWhole: func(r *Record) bool { return r.App != nil && r.Hang != nil },
			words: func(s Style, r *Record) wording {
				return r.App.experiences(s.Paint(colourIf(r.Hang.Ended(), green, Red), r.Hang.line(r.App)))
			},
			yields: true,
		},
		{
			name:    KindAppHolds,
			isWhole: func(r *Record) bool { return r.App != nil && r.Held != nil },
			words: func(_ Style, r *Record) wording {
				return wording{strings.TrimSpace(r.App.who() + "  " + r.Held.line(r.Device)), "", Dim}
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

// App is the application that something is about, and the object of it.
type App struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitempty"`
	Unit   string `json:"unit,omitempty"`
	Object string `json:"object,omitempty"` // cq, qp, srq, wq or device
	Number uint32 `json:"number,omitempty"` // of the object
}

// newApp returns an App that a terminal can be shown: any program chooses its name.
func newApp(a App) *App {
	makePrintable(reflect.ValueOf(&a))
	return &a
}

// who returns the application in words, as in "python3[4711] pod_3f2a".
func (a *App) who() string {
	text := a.Name
	if a.PID > 0 {
		text += fmt.Sprintf("[%d]", a.PID)
	}
	if a.Unit != "" {
		text += " " + a.Unit
	}
	return text
}

// experiences returns the words of what happened to the application, whose name may be longer than its column.
func (a *App) experiences(what string) wording {
	return wording{fmt.Sprintf("%-19s ", a.who()), what, plain}
}

// what returns the object in words, as in "qp 284".
func (a *App) what() string {
	if a.Number == 0 {
		return a.Object
	}
	return fmt.Sprintf("%s %d", a.Object, a.Number)
}

// Unread holds what is known of errors that an application does not read.
type Unread struct {
	Errors uint64 `json:"errors"`           // that wait now
	AgeNS  int64  `json:"age_ns,omitempty"` // how long the queue has not been read; 0: Ended
	// LastedNS is how long they were not read, and End how that ended: EndRead, EndDiscarded, or "" where that is not
	// certain. At their end alone.
	LastedNS int64  `json:"lasted_ns,omitempty"`
	End      string `json:"end,omitempty"`
}

// The values of Unread.End.
const (
	EndRead      = "read"
	EndDiscarded = "discarded" // with the object or the descriptor, unread
)

// Ended reports whether the record is of the end: the errors are read or gone.
func (u *Unread) Ended() bool { return u.AgeNS == 0 }

// line returns the change in words, as in "not read for 10s".
func (u *Unread) line() string {
	if u.Ended() {
		how := map[string]string{EndRead: "read", EndDiscarded: "discarded unread", "": "no longer unread,"}[u.End]
		return strings.TrimSpace(how + " after " + seconds(u.LastedNS))
	}
	text := "not read for " + seconds(u.AgeNS)
	if u.Errors > 1 {
		text += fmt.Sprintf(", %d errors", u.Errors)
	}
	return text
}

// Hang holds what is known of threads that wait in the destruction of an object. All but Threads is of the one that has
// waited longest.
type Hang struct {
	Threads  int         `json:"threads"` // 0: Ended
	TID      int         `json:"tid,omitempty"`
	Missing  uint32      `json:"missing,omitempty"` // acknowledgements
	AgeNS    int64       `json:"age_ns,omitempty"`
	LastedNS int64       `json:"lasted_ns,omitempty"` // at its end alone
	Proof    trace.Proof `json:"proof,omitempty"`     // asleep or waiting
}

// Ended reports whether the record is of the end of a hang.
func (h *Hang) Ended() bool { return h.Threads == 0 }

// line returns the change in words, as in "hangs in destroy of qp 284, 1 ack missing".
func (h *Hang) line(a *App) string {
	if h.Ended() {
		return "no longer hangs in destroy of " + a.what() + ", after " + seconds(h.LastedNS)
	}
	text := "hangs in destroy of " + a.what() + ", " + several(int(h.Missing), "ack") + " missing"
	if h.Threads > 1 {
		text += fmt.Sprintf(", %d threads", h.Threads)
	}
	return text
}

// Tracer holds whether the events of applications are seen.
type Tracer struct {
	Attached bool   `json:"attached"`
	Hooks    string `json:"hooks,omitempty"`
	Missing  int    `json:"hooks_missing,omitempty"`
	BlindNS  int64  `json:"blind_ns,omitempty"` // in the gap before it was attached
}

func newTracer(p *measure.Tracer) *Tracer {
	t := &Tracer{Attached: p.Attached}
	if p.Attached {
		t.Hooks, t.Missing = p.Hooks, p.Missing
	}
	makePrintable(reflect.ValueOf(t))
	return t
}

// line returns the change in words, as in "applications traced: kprobe".
func (t *Tracer) line(reason status.Reason) string {
	if !t.Attached {
		return "applications not traced: " + string(reason)
	}
	text := "applications traced: " + t.Hooks
	if t.Missing > 0 {
		text += ", " + several(t.Missing, "hook") + " missing"
	}
	if t.BlindNS > 0 {
		text += ", not for " + Duration(t.BlindNS) + " before"
	}
	return text
}

// several returns a number of things in words, as in "1 ack" and "2 acks".
func several(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// seconds formats a time in ns that is known to the second.
func seconds(ns int64) string { return time.Duration(ns).Truncate(time.Second).String() }
