package measure

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// AppEvent is a point of rdma_app_event: Count events of one type, queued for processes of one application.
type AppEvent struct {
	Device string
	App    string
	Type   verbs.EventType
	Count  uint64
	Total  uint64    // the counter after these events
	First  time.Time // of the first of them
	PID    int       // that all these events have, as the next two; 0: not known, or not the same
	Number uint32    // 0: of a device, not known, or not the same
	Unit   string    // "": none, or not the same
	At     time.Time // of the last of them
}

// Key implements Point.
func (e *AppEvent) Key() Key {
	return Key{Measurement: appEvents.Name, Device: e.Device, Of: e.App + "\n" + e.Type.String()}
}

// Time implements Point.
func (e *AppEvent) Time() time.Time { return e.At }

// Merge implements Point: the counts add up. Process, object and unit stay only if both points have the same.
func (e *AppEvent) Merge(later Point) {
	l := *later.(*AppEvent)
	l.Count += e.Count
	l.First = e.First
	l.PID, l.Number, l.Unit = common(e.PID, l.PID), common(e.Number, l.Number), common(e.Unit, l.Unit)
	*e = l
}

// common returns the value of two that are equal, otherwise the zero value.
func common[V comparable](a, b V) V {
	if a != b {
		var none V
		return none
	}
	return a
}

// Clone implements Point.
func (e *AppEvent) Clone() Point { return clone(e) }

// Events implements Point.
func (e *AppEvent) Events() uint64 { return e.Count }

// Lines implements Point.
func (e *AppEvent) Lines(add func(Line)) { add(appEvents.line(e)) }

var appEvents = table[AppEvent]{
	Metric: Metric{
		Name:    "rdma_app_event",
		Emitted: AsItHappens,
		Description: "An asynchronous event that the kernel queued for a process, or a run of them. Only with " +
			"applications.events. Events of ports are left out: every process that has the device open gets them, and many " +
			"never read them. An event of which only the count is known comes without number. A point with several events has " +
			"pid, number and unit only if they are the same for all.",
	},
	tags: []tag[AppEvent]{
		newTag("device", "name of the RDMA device", func(v *AppEvent) string { return v.Device }),
		newTag("app", tracedText, func(v *AppEvent) string { return v.App }),
		newTag("event", "name of the type in lower snake, as in qp_fatal", func(v *AppEvent) string { return v.Type.String() }),
		newTag("object", "what the event is about: cq, qp, srq, wq or device",
			func(v *AppEvent) string { return v.Type.Scope().String() }),
	},
	fields: []field[AppEvent]{
		counter("count", "events in this point", func(v *AppEvent) uint64 { return v.Count }),
		counter("total", "the series' events since the plugin started, with these", func(v *AppEvent) uint64 { return v.Total }),
		maybe("first_ns", "unix ns", "time of the first event; only when count is above 1",
			func(v *AppEvent) (int64, bool) { return v.First.UnixNano(), v.Count > 1 && !v.First.IsZero() }),
		pidRow(func(v *AppEvent) int { return v.PID }),
		numberRow(func(v *AppEvent) uint32 { return v.Number }),
		unitRow(func(v *AppEvent) string { return v.Unit }),
	},
}

const (
	tracedText = "name of the process; other: what is above max_series, and what the tracer had no place for; " + ownText
	ownText    = status.WorkerComm + ": the plugin's own workers"
	unitText   = "the innermost of pod_UID, job_ID (Slurm), docker_ID (its first 12 digits) and NAME.service"
)

func pidRow[V any](value func(*V) int) field[V] {
	return maybe("pid", "", "number of the process", func(v *V) (int64, bool) { return int64(value(v)), value(v) > 0 })
}

func numberRow[V any](value func(*V) uint32) field[V] {
	return maybe("number", "", "number of the object, which rdma resource show calls lqpn, cqn or srqn",
		func(v *V) (int64, bool) { return int64(value(v)), value(v) > 0 })
}

func unitRow[V any](value func(*V) string) field[V] {
	return text("unit", unitText+", of the process", value)
}
