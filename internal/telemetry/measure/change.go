package measure

import (
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
)

// Change is a point of rdma_port_change.
type Change struct {
	Device      string
	Port        int
	From, To    verbs.PortState
	Witness     verbs.Witness
	LastedNS    int64 // in From; of the last transition if several have merged
	HasLasted   bool  // false for the first change after the start, when the beginning of From is unknown
	Transitions uint64
	At          time.Time
}

// Key implements Point.
func (c *Change) Key() Key {
	return Key{Measurement: changes.Name, Device: c.Device, Port: c.Port}
}

// Time implements Point.
func (c *Change) Time() time.Time { return c.At }

// Merge implements Point: the first From, the last To, and all transitions.
func (c *Change) Merge(later Point) {
	from, n := c.From, c.Transitions
	*c = *later.(*Change)
	c.From, c.Transitions = from, c.Transitions+n
}

// Clone implements Point.
func (c *Change) Clone() Point { return clone(c) }

// Events implements Point.
func (*Change) Events() uint64 { return 0 }

// Lines implements Point.
func (c *Change) Lines(add func(Line)) { add(changes.line(c)) }

var changes = table[Change]{
	Metric: Metric{
		Name:    "rdma_port_change",
		Emitted: AsItHappens,
		Description: "A change of a port's state. With witness=event the time is when the event was read, and " +
			"late_ns of rdma_async_event says whether it may be late. Changes above max_event_points merge: the first state_from, " +
			"the last state_to, and the sum of transitions.",
	},
	tags: []tag[Change]{
		newTag("device", "name of the RDMA device", func(v *Change) string { return v.Device }),
		newTag("port", "number of the port, from 1", func(v *Change) string { return strconv.Itoa(v.Port) }),
		newTag("state_from", "the state before", func(v *Change) string { return v.From.String() }),
		newTag("state_to", "the state after", func(v *Change) string { return v.To.String() }),
		newTag("witness", "what told of it: event, query, or reopen (found after a worker was replaced)",
			func(v *Change) verbs.Witness { return v.Witness }),
	},
	fields: []field[Change]{
		integer("code_from", "", "number of state_from", func(v *Change) int64 { return int64(v.From) }),
		integer("code_to", "", "number of state_to", func(v *Change) int64 { return int64(v.To) }),
		maybe("lasted_ns", "ns", "time in the state that the last transition left",
			func(v *Change) (int64, bool) { return v.LastedNS, v.HasLasted }),
		counter("transitions", "1, or more when merged", func(v *Change) uint64 { return v.Transitions }),
	},
}
