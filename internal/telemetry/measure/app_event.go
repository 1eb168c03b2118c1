package measure

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// AppEvent is a point of rdma_app_event. It has Count events of one type that the kernel queued for processes of one
// application.
type AppEvent struct {
	Device string
	App    string
	Type   verbs.EventType
	Count  uint64
	Total  uint64    // the counter, including these events
	First  time.Time // time of the first event
	PID    int       // common to all events of the point; 0: not known, or not equal
	Number uint32    // of the object, common to all events; 0: an event of the device, not known, or not equal
	Unit   string    // common to all events; "": none, or not equal
	At     time.Time // time of the last event
}

// Key implements Point.
func (e *AppEvent) Key() Key {
	return Key{Measurement: appEventTable.Name, Device: e.Device, Subject: e.App + "\n" + e.Type.String()}
}

// Time implements Point.
func (e *AppEvent) Time() time.Time { return e.At }

// Merge implements Point. It adds the counts. Process, object and unit remain only if they are equal in both points.
func (e *AppEvent) Merge(later Point) {
	l := *later.(*AppEvent)
	l.Count += e.Count
	l.First = e.First
	l.PID, l.Number, l.Unit = valueIfEqual(e.PID, l.PID), valueIfEqual(e.Number, l.Number), valueIfEqual(e.Unit, l.Unit)
	*e = l
}

// valueIfEqual returns a if both values are equal, otherwise the zero value.
func valueIfEqual[V comparable](a, b V) V {
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
func (e *AppEvent) Lines(add func(Line)) { add(appEventTable.line(e)) }

var appEventTable = table[AppEvent]{
	Metric: Metric{
		Name:    "rdma_app_event",
		Emitted: AsItHappens,
		Description: "An asynchronous event that the kernel queued for a process, or a run of such events. Only with " +
			"applications.events. Events of ports are not included: every process that has the device open gets them, and many " +
			"processes never read them. An event has no number if only its count is known. A point with several events has " +
			"pid, number and unit only if they are equal for all of them.",
	},
	tags: []tag[AppEvent]{
		requiredTag("device", "name of the RDMA device", func(v *AppEvent) string { return v.Device }),
		requiredTag("app", tracedText, func(v *AppEvent) string { return v.App }),
		requiredTag("event", "name of the event type, such as qp_fatal", func(v *AppEvent) string { return v.Type.String() }),
		requiredTag("object", "kind of object that the event is about: cq, qp, srq, wq or device",
			func(v *AppEvent) string { return v.Type.Scope().String() }),
	},
	fields: []field[AppEvent]{
		counter("count", "events in this point", func(v *AppEvent) uint64 { return v.Count }),
		counter("total", "events of the series since the plugin started, including this point", func(v *AppEvent) uint64 { return v.Total }),
		optionalInt("first_ns", "unix ns", "time of the first event; only if count is above 1",
			func(v *AppEvent) (int64, bool) { return v.First.UnixNano(), v.Count > 1 && !v.First.IsZero() }),
		pidField(func(v *AppEvent) int { return v.PID }),
		numberField(func(v *AppEvent) uint32 { return v.Number }),
		unitField(func(v *AppEvent) string { return v.Unit }),
	},
}

const (
	tracedText = "name of the process; other: applications above max_series or above the space of the tracer; " + ownText
	ownText    = status.WorkerComm + ": the plugin's own workers"
	unitText   = "unit of the process: the innermost of pod_UID, job_ID (Slurm), docker_ID (first 12 digits) and NAME.service"
)

func pidField[V any](value func(*V) int) field[V] {
	return optionalInt("pid", "", "process ID", func(v *V) (int64, bool) { return int64(value(v)), value(v) > 0 })
}

func numberField[V any](value func(*V) uint32) field[V] {
	return optionalInt("number", "", "number of the object, shown as lqpn, cqn or srqn by rdma resource show",
		func(v *V) (int64, bool) { return int64(value(v)), value(v) > 0 })
}

func unitField[V any](value func(*V) string) field[V] {
	return optionalText("unit", unitText, value)
}
