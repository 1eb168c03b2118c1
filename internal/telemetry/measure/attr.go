package measure

import "time"

// AttrChange is a point of rdma_attr_change.
type AttrChange struct {
	Device   string
	Port     int    // 0: an attribute of the device
	Attr     string // name, such as "mtu"
	From, To string
	Changes  uint64 // 1, or more if points merged
	At       time.Time
}

// Key implements Point.
func (c *AttrChange) Key() Key {
	return Key{Measurement: attrChangeTable.Name, Device: c.Device, Subject: c.Attr, Port: c.Port}
}

// Time implements Point.
func (c *AttrChange) Time() time.Time { return c.At }

// Merge implements Point. It keeps the first From and the last To, and adds the changes.
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
func (c *AttrChange) Lines(add func(Line)) { add(attrChangeTable.line(c)) }

var attrChangeTable = table[AttrChange]{
	Metric: Metric{
		Name:    "rdma_attr_change",
		Emitted: AsItHappens,
		Description: "A change of an attribute of a device or port. The plugin compares the attributes of a port only while the " +
			"port is active, because many drivers report other values for a port that is down. Changes above max_event_points " +
			"merge into a point with the first from, the last to and the sum of changes.",
	},
	tags: []tag[AttrChange]{
		requiredTag("device", "name of the RDMA device", func(v *AttrChange) string { return v.Device }),
		optionalTag("port", "number of the port; not with firmware", func(v *AttrChange) string { return portTag(v.Port) }),
		requiredTag("attr", "name of the attribute: lid, sm_lid, mtu, rate (Gbit/s), rate_effective (Gbit/s), width, netdev or firmware",
			func(v *AttrChange) string { return v.Attr }),
	},
	fields: []field[AttrChange]{
		optionalText("from", "value before the change", func(v *AttrChange) string { return v.From }),
		optionalText("to", "value after the change", func(v *AttrChange) string { return v.To }),
		counter("changes", "changes in this point: 1, or more if changes merged", func(v *AttrChange) uint64 { return v.Changes }),
	},
}
