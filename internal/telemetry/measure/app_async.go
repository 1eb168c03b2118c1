package measure

import (
	"slices"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// AppAsync is a point of rdma_app_async: the asynchronous events of one application.
type AppAsync struct {
	Device string
	App    string
	Unit   string // "": none, or not in by
	AppCounts
	Attached     bool // the next three are known
	Unread       uint64
	UnreadErrors uint64 // all that wait now, for however short a time
	UnreadAge    int64  // ns; 0: nothing is unread
	Delay        aggregate.Stat
	At           time.Time
}

// AppCounts are the counters of an application. The sum of Types is that of Read, Discarded, Skipped, and the events that
// are unread.
type AppCounts struct {
	Processes        uint64              // that had an event
	Types            [trace.Types]uint64 // events queued
	Read             uint64
	Discarded        uint64
	Skipped          uint64
	DestroyedUnacked uint64
}

// Queued returns the events queued, of all types.
func (c *AppCounts) Queued() uint64 {
	var sum uint64
	for _, n := range c.Types {
		sum += n
	}
	return sum
}

// Key implements Point.
func (a *AppAsync) Key() Key {
	return Key{Measurement: appAsyncs.Name, Device: a.Device, Of: a.App + "\n" + a.Unit}
}

// Time implements Point.
func (a *AppAsync) Time() time.Time { return a.At }

// Merge implements Point: the later one replaces this.
func (a *AppAsync) Merge(later Point) { *a = *later.(*AppAsync) }

// Clone implements Point.
func (a *AppAsync) Clone() Point { return clone(a) }

// Events implements Point.
func (*AppAsync) Events() uint64 { return 0 }

// Lines implements Point.
func (a *AppAsync) Lines(add func(Line)) { add(appAsyncs.line(a)) }

var appAsyncs = table[AppAsync]{
	Metric: Metric{
		Name:    "rdma_app_async",
		Emitted: everyInterval,
		Description: "The asynchronous events of applications, and whether they are read: queued is the sum of read, discarded, " +
			"skipped and unread. Only with applications.events, and without events of ports.",
	},
	tags: []tag[AppAsync]{
		newTag("device", "name of the RDMA device", func(v *AppAsync) string { return v.Device }),
		newTag("app", tracedText, func(v *AppAsync) string { return v.App }),
		maybeTag("unit", unitText+"; with unit in applications.by", func(v *AppAsync) string { return v.Unit }),
	},
	fields: slices.Concat([]field[AppAsync]{
		counter("processes", "processes that had an event", func(v *AppAsync) uint64 { return v.Processes }),
		counter("queued", "events that the kernel queued for a process", func(v *AppAsync) uint64 { return v.Queued() }),
		counter("read", "of these, read by the process", func(v *AppAsync) uint64 { return v.Read }),
		counter("discarded", "of these, gone unread with their object or the process' descriptor",
			func(v *AppAsync) uint64 { return v.Discarded }),
		counter("skipped", "of these, those for which the kernel had no memory", func(v *AppAsync) uint64 { return v.Skipped }),
		unread("unread", "", "events that wait to be read now; not while no tracer is attached, as the next two",
			func(v *AppAsync) int64 { return clip(v.Unread) }),
		unread("unread_errors", "", "of these, errors: "+trace.ErrorNames("and"),
			func(v *AppAsync) int64 { return clip(v.UnreadErrors) }),
		unread("unread_age_ns", "ns", "since the queue was last empty or read, the longest of all processes; 0 when nothing waits",
			func(v *AppAsync) int64 { return v.UnreadAge }),
		counter("destroyed_unacked", "objects that were destroyed while an event of theirs was not acknowledged",
			func(v *AppAsync) uint64 { return v.DestroyedUnacked }),
	},
		stat("read_delay", "from the queue to the end of the process' read(2)", func(v *AppAsync) aggregate.Stat { return v.Delay }),
		appEventRows()),
}

// unread returns a field of what is so now, which is unknown without a tracer.
func unread(name, unit, description string, value func(*AppAsync) int64) field[AppAsync] {
	return maybe(name, unit, description, func(v *AppAsync) (int64, bool) { return value(v), v.Attached })
}

// appEventRows returns a counter for each type of event that is counted. Errors are always there, so that the first one
// is a growth.
func appEventRows() []field[AppAsync] {
	var rows []field[AppAsync]
	for _, t := range trace.EventTypes() {
		rows = append(rows, appEventRow(t))
	}
	return rows
}

func appEventRow(t verbs.EventType) field[AppAsync] {
	if trace.IsError(t) {
		return counter(t.String(), t.String()+" events queued", func(v *AppAsync) uint64 { return v.Types[t] })
	}
	return cumulative(maybe(t.String(), "", t.String()+" events queued; once there was one",
		func(v *AppAsync) (int64, bool) { return clip(v.Types[t]), v.Types[t] > 0 }))
}
