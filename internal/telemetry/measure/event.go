package measure

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Event is a point of rdma_async_event: Count events of one type.
type Event struct {
	Device  string
	Type    verbs.EventType
	Port    int // 0 unless the type's scope is verbs.ScopePort
	Count   uint64
	Total   uint64    // the counter after these events
	First   time.Time // when the first of them was read
	HoldMax int64     // ns; 0 unknown
	AckMax  int64     // ns; 0 unknown
	LateNS  int64     // how long the device had not answered when the first was read; 0: it had answered
	At      time.Time // when the last of them was read
}

// Key implements Point.
func (e *Event) Key() Key {
	return Key{Measurement: events.Name, Device: e.Device, Of: e.Type.String(), Port: e.Port}
}

// Time implements Point.
func (e *Event) Time() time.Time { return e.At }

// Merge implements Point: the counts add up.
func (e *Event) Merge(later Point) {
	l := later.(*Event)
	e.Count += l.Count
	e.Total, e.At = l.Total, l.At
	e.HoldMax = max(e.HoldMax, l.HoldMax)
	e.AckMax = max(e.AckMax, l.AckMax)
	e.LateNS = max(e.LateNS, l.LateNS)
}

// Clone implements Point.
func (e *Event) Clone() Point { return clone(e) }

// Events implements Point.
func (e *Event) Events() uint64 { return e.Count }

// Lines implements Point.
func (e *Event) Lines(add func(Line)) { add(events.line(e)) }

var events = table[Event]{
	Metric: Metric{
		Name:    "rdma_async_event",
		Emitted: AsItHappens,
		Description: "One event, or a run of equal ones. The time is when the plugin read the last one from the kernel, " +
			"which passes an event on only after it has queried the port: see late_ns. Points above " +
			"max_event_points merge; no event goes uncounted.",
	},
	tags: []tag[Event]{
		newTag("device", "name of the RDMA device", func(v *Event) string { return v.Device }),
		newTag("event", "name of the type in lower snake, as in port_err, or unknown_<number>",
			func(v *Event) string { return v.Type.String() }),
		newTag("scope", "what the event is about: port, device, cq, qp, srq, wq or unknown",
			func(v *Event) string { return v.Type.Scope().String() }),
		maybeTag("port", "number of the port; only with scope=port", func(v *Event) string { return portTag(v.Port) }),
	},
	fields: []field[Event]{
		counter("count", "events in this point", func(v *Event) uint64 { return v.Count }),
		counter("total", "the series' events since the plugin started, with these",
			func(v *Event) uint64 { return v.Total }),
		maybe("first_ns", "unix ns", "when the first event was read; only when count is above 1",
			func(v *Event) (int64, bool) { return v.First.UnixNano(), v.Count > 1 && !v.First.IsZero() }),
		maybe("hold_ns", "ns", holdText+", greatest of the point",
			func(v *Event) (int64, bool) { return v.HoldMax, v.HoldMax > 0 }),
		maybe("ack_ns", "ns", ackText+", greatest of the point",
			func(v *Event) (int64, bool) { return v.AckMax, v.AckMax > 0 }),
		maybe("late_ns", "ns", "how much earlier than first_ns or the time the event may have happened: for so long a call to the "+
			"device had not been answered; only from 1 s on",
			func(v *Event) (int64, bool) { return v.LateNS, v.LateNS > 0 }),
	},
}
