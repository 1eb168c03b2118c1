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
	LastedNS    int64 // time spent in From; of the last transition if several have merged
	HasLasted   bool  // false for the first change after the start: the plugin does not know when From began
	Transitions uint64
	At          time.Time
}

// Key implements Point.
func (c *Change) Key() Key {
	return Key{Measurement: portChangeTable.Name, Device: c.Device, Port: c.Port}
}

// Time implements Point.
func (c *Change) Time() time.Time { return c.At }

// Merge implements Point. It keeps the first From and the last To, and adds the transitions.
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
func (c *Change) Lines(add func(Line)) { add(portChangeTable.line(c)) }

var portChangeTable = table[Change]{
	Metric: Metric{
		Name:    "rdma_port_change",
		Emitted: AsItHappens,
		Description: "A change of a port's state. With witness=event, the time of the point is the time when the plugin read the event, " +
			"and late_ns of rdma_async_event tells whether the change may have happened earlier. Changes above max_event_points merge " +
			"into a point with the first state_from, the last state_to and the sum of transitions.",
	},
	tags: []tag[Change]{
		requiredTag("device", "name of the RDMA device", func(v *Change) string { return v.Device }),
		requiredTag("port", "number of the port, from 1", func(v *Change) string { return strconv.Itoa(v.Port) }),
		requiredTag("state_from", "state before the change", func(v *Change) string { return v.From.String() }),
		requiredTag("state_to", "state after the change", func(v *Change) string { return v.To.String() }),
		requiredTag("witness", "source of the change: event, query or reopen (found when a new worker opened the device)",
			func(v *Change) verbs.Witness { return v.Witness }),
	},
	fields: []field[Change]{
		requiredInt("code_from", "", "number of state_from", func(v *Change) int64 { return int64(v.From) }),
		requiredInt("code_to", "", "number of state_to", func(v *Change) int64 { return int64(v.To) }),
		optionalInt("lasted_ns", "ns", "time spent in the state that the last transition left",
			func(v *Change) (int64, bool) { return v.LastedNS, v.HasLasted }),
		counter("transitions", "changes in this point: 1, or more if changes merged", func(v *Change) uint64 { return v.Transitions }),
	},
}
