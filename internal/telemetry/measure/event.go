package measure

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Event is a point of rdma_async_event. It has Count events of one type.
type Event struct {
	Device  string
	Type    verbs.EventType
	Port    int // 0 unless the type's scope is verbs.ScopePort
	Count   uint64
	Total   uint64    // the counter, including these events
	First   time.Time // when the first event was read
	HoldMax int64     // ns; 0 unknown
	AckMax  int64     // ns; 0 unknown
	LateNS  int64     // for how long a call to the device had not been answered when the first event was read; 0: it had been answered
	At      time.Time // when the last event was read
}

// Key implements Point.
func (e *Event) Key() Key {
	return Key{Measurement: eventTable.Name, Device: e.Device, Subject: e.Type.String(), Port: e.Port}
}

// Time implements Point.
func (e *Event) Time() time.Time { return e.At }

// Merge implements Point. It adds the counts.
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
func (e *Event) Lines(add func(Line)) { add(eventTable.line(e)) }

var eventTable = table[Event]{
	Metric: Metric{
		Name:    "rdma_async_event",
		Emitted: AsItHappens,
		Description: "An asynchronous event, or a run of equal events. The time of the point is the time when the plugin read the " +
			"last event. The kernel delivers an event only after it has queried the port, so the event may have happened earlier: " +
			"see late_ns. Points above max_event_points merge, and every event stays counted.",
	},
	tags: []tag[Event]{
		requiredTag("device", "name of the RDMA device", func(v *Event) string { return v.Device }),
		requiredTag("event", "name of the event type, such as port_err, or unknown_<number>",
			func(v *Event) string { return v.Type.String() }),
		requiredTag("scope", "kind of object that the event is about: port, device, cq, qp, srq, wq or unknown",
			func(v *Event) string { return v.Type.Scope().String() }),
		optionalTag("port", "number of the port; only with scope=port", func(v *Event) string { return portTag(v.Port) }),
	},
	fields: []field[Event]{
		counter("count", "events in this point", func(v *Event) uint64 { return v.Count }),
		counter("total", "events of the series since the plugin started, including this point",
			func(v *Event) uint64 { return v.Total }),
		optionalInt("first_ns", "unix ns", "time when the first event was read; only if count is above 1",
			func(v *Event) (int64, bool) { return v.First.UnixNano(), v.Count > 1 && !v.First.IsZero() }),
		optionalInt("hold_ns", "ns", holdText+", maximum of the point",
			func(v *Event) (int64, bool) { return v.HoldMax, v.HoldMax > 0 }),
		optionalInt("ack_ns", "ns", ackText+", maximum of the point",
			func(v *Event) (int64, bool) { return v.AckMax, v.AckMax > 0 }),
		optionalInt("late_ns", "ns", "time by which the event may have happened before first_ns (or before the point's time): the device had not "+
			"answered a call for so long; only from 1 s on",
			func(v *Event) (int64, bool) { return v.LateNS, v.LateNS > 0 }),
	},
}
