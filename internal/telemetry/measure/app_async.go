package measure

import (
	"slices"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// AppAsync is a point of rdma_app_async. It has the asynchronous events of one application.
type AppAsync struct {
	Device string
	App    string
	Unit   string // "": none, or the option by does not include it
	AppCounts
	Attached     bool // a tracer is attached, so that the next three fields are known
	Unread       uint64
	UnreadErrors uint64 // all unread errors, including those that are unread only briefly
	UnreadAge    int64  // ns; 0: nothing is unread
	Delay        aggregate.Stat
	At           time.Time
}

// AppCounts holds the counters of an application. The sum of Types equals the sum of Read, Discarded, Skipped and the
// unread events.
type AppCounts struct {
	Processes        uint64              // processes that had an event
	Types            [trace.Types]uint64 // events queued
	Read             uint64
	Discarded        uint64
	Skipped          uint64
	DestroyedUnacked uint64
}

// Queued returns the number of events of all types that the kernel queued.
func (c *AppCounts) Queued() uint64 {
	var sum uint64
	for _, n := range c.Types {
		sum += n
	}
	return sum
}

// Key implements Point.
func (a *AppAsync) Key() Key {
	return Key{Measurement: appAsyncTable.Name, Device: a.Device, Subject: a.App + "\n" + a.Unit}
}

// Time implements Point.
func (a *AppAsync) Time() time.Time { return a.At }

// Merge implements Point. The later point replaces this one.
func (a *AppAsync) Merge(later Point) { *a = *later.(*AppAsync) }

// Clone implements Point.
func (a *AppAsync) Clone() Point { return clone(a) }

// Events implements Point.
func (*AppAsync) Events() uint64 { return 0 }

// Lines implements Point.
func (a *AppAsync) Lines(add func(Line)) { add(appAsyncTable.line(a)) }

var appAsyncTable = table[AppAsync]{
	Metric: Metric{
		Name:    "rdma_app_async",
		Emitted: everyInterval,
		Description: "Asynchronous events of applications, and whether the applications read them. queued = read + discarded + " +
			"skipped + unread. Only with applications.events. Events of ports are not included.",
	},
	tags: []tag[AppAsync]{
		requiredTag("device", "name of the RDMA device", func(v *AppAsync) string { return v.Device }),
		requiredTag("app", tracedText, func(v *AppAsync) string { return v.App }),
		optionalTag("unit", unitText+"; only if applications.by includes unit", func(v *AppAsync) string { return v.Unit }),
	},
	fields: slices.Concat([]field[AppAsync]{
		counter("processes", "processes that had an event", func(v *AppAsync) uint64 { return v.Processes }),
		counter("queued", "events that the kernel queued for a process", func(v *AppAsync) uint64 { return v.Queued() }),
		counter("read", "queued events that the process read", func(v *AppAsync) uint64 { return v.Read }),
		counter("discarded", "queued events that went away unread with their object or with the file descriptor of the process",
			func(v *AppAsync) uint64 { return v.Discarded }),
		counter("skipped", "queued events for which the kernel had no memory", func(v *AppAsync) uint64 { return v.Skipped }),
		unreadField("unread", "", "events that wait to be read; only while a tracer is attached",
			func(v *AppAsync) int64 { return clampToInt64(v.Unread) }),
		unreadField("unread_errors", "", "unread events that are errors ("+trace.ErrorNames("and")+"); only while a tracer is attached",
			func(v *AppAsync) int64 { return clampToInt64(v.UnreadErrors) }),
		unreadField("unread_age_ns", "ns", "time since the queue was last empty or read, longest of all processes; "+
			"0 if no event waits; only while a tracer is attached",
			func(v *AppAsync) int64 { return v.UnreadAge }),
		counter("destroyed_unacked", "objects destroyed while one of their events was not acknowledged",
			func(v *AppAsync) uint64 { return v.DestroyedUnacked }),
	},
		statFields("read_delay", "time from the queueing of an event to the end of the read(2) of the process", func(v *AppAsync) aggregate.Stat { return v.Delay }),
		appEventFields()),
}

// unreadField returns a field about the events that are unread now. It is unknown without a tracer.
func unreadField(name, unit, description string, value func(*AppAsync) int64) field[AppAsync] {
	return optionalInt(name, unit, description, func(v *AppAsync) (int64, bool) { return value(v), v.Attached })
}

// appEventFields returns a counter for each counted event type. The counters of errors are always present, so that a
// database sees the first error as an increase.
func appEventFields() []field[AppAsync] {
	var rows []field[AppAsync]
	for _, t := range trace.EventTypes() {
		rows = append(rows, appEventField(t))
	}
	return rows
}

func appEventField(t verbs.EventType) field[AppAsync] {
	if trace.IsError(t) {
		return counter(t.String(), t.String()+" events queued", func(v *AppAsync) uint64 { return v.Types[t] })
	}
	return markCumulative(optionalInt(t.String(), "", t.String()+" events queued; only after the first one",
		func(v *AppAsync) (int64, bool) { return clampToInt64(v.Types[t]), v.Types[t] > 0 }))
}
