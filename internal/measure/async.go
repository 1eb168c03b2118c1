package measure

import (
	"slices"

	"rdma_events/internal/verbs"
)

const (
	holdText = "return of ibv_get_async_event to return of ibv_ack_async_event, per event"
	ackText  = "ibv_ack_async_event alone, per call; libibverbs does nothing in it for port and device events"
)

func asyncMetric() table[Async] {
	type view = Async
	return table[view]{
		Metric: Metric{
			Name:    "rdma_async",
			Emitted: everyInterval,
			Description: "Asynchronous events that were read, one series per port with the events of that port " +
				"and one per device with all others. Events of queue pairs, completion queues and other objects reach " +
				"only the context that owns the object, so these are about the plugin's own probes.",
		},
		tags: []tag[view]{
			newTag("device", "name of the RDMA device", func(v *view) string { return v.Device }),
			maybeTag("port", "number of the port; only on the series of port events",
				func(v *view) string { return number(v.Port) }),
		},
		fields: slices.Concat(eventRows(), []field[view]{
			counter("read", "events read, of all types", func(v *view) uint64 { return v.Read }),
			counter("acked", "of these, acknowledged", func(v *view) uint64 { return v.Acked }),
			counter("unacked", "of these, not yet acknowledged; stays above 0 when an acknowledgement hangs",
				func(v *view) uint64 { return v.Unacked }),
			counter("released", "of these, freed unacknowledged by a worker's death",
				func(v *view) uint64 { return v.Released }),
		},
			stat("hold", holdText, func(v *view) Stat { return v.Hold }),
			stat("ack", ackText, func(v *view) Stat { return v.Ack })),
		more: func(v *view, set func(string, any)) {
			for _, e := range v.Events {
				if !e.Type.Known() {
					set(e.Type.String(), clip(e.Total))
					set(e.Type.String()+"_rate", e.Rate)
				}
			}
		},
	}
}

// eventRows has the counter and the rate of every event type, and stands for
// those of types without a name.
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
			Name: "unknown_<number>", Kind: Int, Optional: true,
			Description: "events of a type without a name, newer than this program; only on the device's series",
		}},
		field[Async]{Field: Field{
			Name: "unknown_<number>_rate", Kind: Float, Unit: "1/s", Optional: true, Description: "the same per second",
		}})
}

func eventRow(t verbs.EventType) []field[Async] {
	type view = Async
	find := func(v *view) (EventCount, bool) {
		i := slices.IndexFunc(v.Events, func(e EventCount) bool { return e.Type == t })
		if i < 0 {
			return EventCount{}, false
		}
		return v.Events[i], true
	}
	series := "only on the device's series"
	if t.Scope() == verbs.ScopePort {
		series = "only on a port's series"
	}
	return []field[view]{
		maybe(t.String(), "", t.String()+" events ("+t.Scope().String()+" scope), "+series,
			func(v *view) (int64, bool) {
				e, ok := find(v)
				return clip(e.Total), ok
			}),
		float(t.String()+"_rate", "1/s", "the same per second",
			func(v *view) (float64, bool) {
				e, ok := find(v)
				return e.Rate, ok
			}),
	}
}

func eventMetric() table[Event] {
	type view = Event
	return table[view]{
		Metric: Metric{
			Name:    "rdma_async_event",
			Emitted: asItHappens,
			Description: "One event, or a run of equal ones. The time is that of the last one. Points above " +
				"max_event_points merge; no event goes uncounted.",
		},
		tags: []tag[view]{
			newTag("device", "name of the RDMA device", func(v *view) string { return v.Device }),
			newTag("event", "name of the type in lower snake, as in port_err, or unknown_<number>",
				func(v *view) string { return v.Type.String() }),
			newTag("scope", "what the event is about: port, device, cq, qp, srq, wq or unknown",
				func(v *view) string { return v.Type.Scope().String() }),
			maybeTag("port", "number of the port; only with scope=port", func(v *view) string { return number(v.Port) }),
		},
		fields: []field[view]{
			counter("count", "events in this point", func(v *view) uint64 { return v.Count }),
			counter("total", "the series' events since the plugin started, with these",
				func(v *view) uint64 { return v.Total }),
			maybe("first_ns", "unix ns", "time of the first event; only when count is above 1",
				func(v *view) (int64, bool) { return v.First.UnixNano(), v.Count > 1 && !v.First.IsZero() }),
			maybe("hold_ns", "ns", holdText+", greatest of the point",
				func(v *view) (int64, bool) { return v.HoldMax, v.HoldMax > 0 }),
			maybe("ack_ns", "ns", ackText+", greatest of the point",
				func(v *view) (int64, bool) { return v.AckMax, v.AckMax > 0 }),
		},
	}
}
