package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Async is a point of rdma_async: the events of a port, or with Port 0 all other
// events of the device.
type Async struct {
	Device    string
	Port      int
	Types     []EventCount // every type of the scope, also those never seen
	Read      uint64
	Acked     uint64
	Unacked   uint64 // read and not yet acknowledged by the running worker
	Released  uint64 // freed unacknowledged when a worker died
	Hold, Ack aggregate.Stat
	At        time.Time
}

// EventCount is the counter of one event type and its rate per second over the
// interval just ended.
type EventCount struct {
	Type  verbs.EventType
	Total uint64
	Rate  float64
}

// addTo adds the events that are not acknowledged yet to the host's sum.
func (a *Async) addTo(h *Host) { h.Unacked += a.Unacked }

// Key implements Point.
func (a *Async) Key() Key {
	return Key{Measurement: asyncs.Name, Device: a.Device, Port: a.Port}
}

// Time implements Point.
func (a *Async) Time() time.Time { return a.At }

// Merge implements Point: the later one replaces this.
func (a *Async) Merge(later Point) { *a = *later.(*Async) }

// Clone implements Point.
func (a *Async) Clone() Point { return clone(a) }

// Events implements Point.
func (*Async) Events() uint64 { return 0 }

// Lines implements Point.
func (a *Async) Lines(add func(Line)) { add(asyncs.line(a)) }

const (
	holdText = "return of ibv_get_async_event to return of ibv_ack_async_event, per event"
	ackText  = "ibv_ack_async_event alone, per call; libibverbs does nothing in it for port and device events"
)

var asyncs = table[Async]{
	Metric: Metric{
		Name:    "rdma_async",
		Emitted: everyInterval,
		Description: "Asynchronous events that were read, one series per port with the events of that port " +
			"and one per device with all others. Events of queue pairs, completion queues and other objects reach " +
			"only the context that owns the object, so these are about the plugin's own probes.",
	},
	tags: []tag[Async]{
		newTag("device", "name of the RDMA device", func(v *Async) string { return v.Device }),
		maybeTag("port", "number of the port; only on the series of port events",
			func(v *Async) string { return portTag(v.Port) }),
	},
	fields: slices.Concat(eventRows(), []field[Async]{
		counter("read", "events read, of all types", func(v *Async) uint64 { return v.Read }),
		counter("acked", "of these, acknowledged", func(v *Async) uint64 { return v.Acked }),
		integer("unacked", "", "of these, not yet acknowledged; stays above 0 when an acknowledgement hangs",
			func(v *Async) int64 { return clip(v.Unacked) }),
		counter("released", "of these, freed unacknowledged by a worker's death",
			func(v *Async) uint64 { return v.Released }),
	},
		stat("hold", holdText, func(v *Async) aggregate.Stat { return v.Hold }),
		stat("ack", ackText, func(v *Async) aggregate.Stat { return v.Ack })),
	more: func(v *Async, set func(string, any)) {
		for _, e := range v.Types {
			if !e.Type.Known() {
				set(e.Type.String(), clip(e.Total))
				set(e.Type.String()+"_rate", e.Rate)
			}
		}
	},
}

// eventRows returns the counter and the rate of every event type, and two rows that
// stand for all types without a name.
func eventRows() []field[Async] {
	var rows []field[Async]
	for _, scope := range []verbs.Scope{
		verbs.ScopePort, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ,
	} {
		for _, t := range verbs.EventTypes(scope) {
			rows = append(rows, eventRow(t)...)
		}
	}
	return append(rows,
		field[Async]{Field: Field{
			Name: "unknown_<number>", Kind: Int, Optional: true, Cumulative: true,
			Description: "events of a type without a name, newer than this program; only on the device's series",
		}},
		field[Async]{Field: Field{
			Name: "unknown_<number>_rate", Kind: Float, Unit: "1/s", Optional: true, Description: "the same per second",
		}})
}

func eventRow(t verbs.EventType) []field[Async] {
	find := func(v *Async) (EventCount, bool) {
		i := slices.IndexFunc(v.Types, func(e EventCount) bool { return e.Type == t })
		if i < 0 {
			return EventCount{}, false
		}
		return v.Types[i], true
	}
	series := "only on the device's series"
	if t.Scope() == verbs.ScopePort {
		series = "only on a port's series"
	}
	return []field[Async]{
		cumulative(maybe(t.String(), "", t.String()+" events ("+t.Scope().String()+" scope), "+series,
			func(v *Async) (int64, bool) {
				e, ok := find(v)
				return clip(e.Total), ok
			})),
		float(t.String()+"_rate", "1/s", "the same per second",
			func(v *Async) (float64, bool) {
				e, ok := find(v)
				return e.Rate, ok
			}),
	}
}

// portTag returns the value of the tag port, "" for a point of the device.
func portTag(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
