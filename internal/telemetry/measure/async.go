package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Async is a point of rdma_async. It has the events of a port or, if Port is 0, all other
// events of the device.
type Async struct {
	Device    string
	Port      int
	Types     []EventCount // every type of the scope, including types never seen
	Read      uint64
	Acked     uint64
	Unacked   uint64 // read and not yet acknowledged by the running worker
	Released  uint64 // freed without acknowledgement when a worker died
	Hold, Ack aggregate.Stat
	At        time.Time
}

// EventCount is the counter of one event type and its rate per second over the last
// interval.
type EventCount struct {
	Type  verbs.EventType
	Total uint64
	Rate  float64
}

// addTo adds the unacknowledged events to the host's sum.
func (a *Async) addTo(h *Host) { h.Unacked += a.Unacked }

// Key implements Point.
func (a *Async) Key() Key {
	return Key{Measurement: asyncTable.Name, Device: a.Device, Port: a.Port}
}

// Time implements Point.
func (a *Async) Time() time.Time { return a.At }

// Merge implements Point. The later point replaces this one.
func (a *Async) Merge(later Point) { *a = *later.(*Async) }

// Clone implements Point.
func (a *Async) Clone() Point { return clone(a) }

// Events implements Point.
func (*Async) Events() uint64 { return 0 }

// Lines implements Point.
func (a *Async) Lines(add func(Line)) { add(asyncTable.line(a)) }

const (
	holdText = "time from the return of ibv_get_async_event to the return of ibv_ack_async_event"
	ackText  = "time in ibv_ack_async_event (in which libibverbs does nothing for port and device events)"
)

var asyncTable = table[Async]{
	Metric: Metric{
		Name:    "rdma_async",
		Emitted: everyInterval,
		Description: "Asynchronous events that the plugin read. Each port has a series with its port events, and each device " +
			"has a series with all other events. The kernel reports an event of a queue pair, completion queue or other object " +
			"only to the context that owns the object. Events of objects are therefore about the plugin's own probes.",
	},
	tags: []tag[Async]{
		requiredTag("device", "name of the RDMA device", func(v *Async) string { return v.Device }),
		optionalTag("port", "number of the port; only on the series with port events",
			func(v *Async) string { return portTag(v.Port) }),
	},
	fields: slices.Concat(eventCountFields(), []field[Async]{
		counter("read", "events read, of all types", func(v *Async) uint64 { return v.Read }),
		counter("acked", "events read and acknowledged", func(v *Async) uint64 { return v.Acked }),
		requiredInt("unacked", "", "events read and not yet acknowledged; stays above 0 while an acknowledgement hangs",
			func(v *Async) int64 { return clampToInt64(v.Unacked) }),
		counter("released", "events read and then freed without acknowledgement, because a worker died",
			func(v *Async) uint64 { return v.Released }),
	},
		statFields("hold", holdText, func(v *Async) aggregate.Stat { return v.Hold }),
		statFields("ack", ackText, func(v *Async) aggregate.Stat { return v.Ack })),
	more: func(v *Async, set func(string, any)) {
		for _, e := range v.Types {
			if !e.Type.Known() {
				set(e.Type.String(), clampToInt64(e.Total))
				set(e.Type.String()+"_rate", e.Rate)
			}
		}
	},
}

// eventCountFields returns the counter and the rate of every event type, and two fields
// that stand for all types without a name.
func eventCountFields() []field[Async] {
	var rows []field[Async]
	for _, scope := range []verbs.Scope{
		verbs.ScopePort, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ,
	} {
		for _, t := range verbs.EventTypes(scope) {
			rows = append(rows, eventTypeFields(t)...)
		}
	}
	return append(rows,
		field[Async]{Field: Field{
			Name: "unknown_<number>", Kind: Int, Optional: true, Cumulative: true,
			Description: "events of a type that is newer than the plugin and has no name; only on the series of the device",
		}},
		field[Async]{Field: Field{
			Name: "unknown_<number>_rate", Kind: Float, Unit: "1/s", Optional: true, Description: "these events per second",
		}})
}

func eventTypeFields(t verbs.EventType) []field[Async] {
	find := func(v *Async) (EventCount, bool) {
		i := slices.IndexFunc(v.Types, func(e EventCount) bool { return e.Type == t })
		if i < 0 {
			return EventCount{}, false
		}
		return v.Types[i], true
	}
	series := "only on the series of the device"
	if t.Scope() == verbs.ScopePort {
		series = "only on the series of a port"
	}
	return []field[Async]{
		markCumulative(optionalInt(t.String(), "", t.String()+" events (scope "+t.Scope().String()+"); "+series,
			func(v *Async) (int64, bool) {
				e, ok := find(v)
				return clampToInt64(e.Total), ok
			})),
		optionalFloat(t.String()+"_rate", "1/s", t.String()+" events per second",
			func(v *Async) (float64, bool) {
				e, ok := find(v)
				return e.Rate, ok
			}),
	}
}

// portTag returns the value of the tag port. It is "" for a point of the device.
func portTag(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
