package measure

import "time"

// AttrChange is a point of rdma_attr_change.
type AttrChange struct {
	Device   string
	Port     int    // 0: an attribute of the device
	Attr     string // as in "mtu"
	From, To string
	Changes  uint64 // 1, or more when merged
	At       time.Time
}

// Key implements Point.
func (c *AttrChange) Key() Key {
	return Key{Measurement: attrChanges.Name, Device: c.Device, Of: c.Attr, Port: c.Port}
}

// Time implements Point.
func (c *AttrChange) Time() time.Time { return c.At }

// Merge implements Point: the first From, the last To, and all changes.
func (c *AttrChange) Merge(later Point) {
	from, n := c.From, c.Changes
	*c = *later.(*AttrChange)
	c.From, c.Changes = from, c.Changes+n
}

// Clone implements Point.
func (c *AttrChange) Clone() Point { return clone(c) }

// Events implements Point.
func (*AttrChange) Events() uint64 { return 0 }

// Lines implements Point.
func (c *AttrChange) Lines(add func(Line)) { add(attrChanges.line(c)) }

var attrChanges = table[AttrChange]{
	Metric: Metric{
		Name:    "rdma_attr_change",
		Emitted: AsItHappens,
		Description: "An attribute has another value than before. Those of a port are compared while it is active, " +
			"because many drivers report other values for a port that is down. " +
			"Changes above max_event_points merge: the first from, the last to, and the sum of changes.",
	},
	tags: []tag[AttrChange]{
		newTag("device", "name of the RDMA device", func(v *AttrChange) string { return v.Device }),
		maybeTag("port", "number of the port; not with firmware", func(v *AttrChange) string { return portTag(v.Port) }),
		newTag("attr", "lid, sm_lid, mtu, rate (Gbit/s), rate_effective (Gbit/s), width, netdev or firmware", func(v *AttrChange) string { return v.Attr }),
	},
	fields: []field[AttrChange]{
		text("from", "the value before", func(v *AttrChange) string { return v.From }),
		text("to", "the value now", func(v *AttrChange) string { return v.To }),
		counter("changes", "1, or more when merged", func(v *AttrChange) uint64 { return v.Changes }),
	},
}
