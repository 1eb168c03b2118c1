package measure

import (
	"time"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
)

// Evidence is a point of rdma_evidence.
type Evidence struct {
	Device   string
	Port     int // 0: about the device
	Trigger  verbs.Trigger
	Cause    cause.Cause
	Triggers uint64 // 1, and those that came while it waited for its turn, or more when merged

	HasSnapshot bool
	AgeNS       int64 // from the trigger to the first part
	TookNS      int64
	NetDev      *verbs.NetDev // nil: not known; not changed after it was set
	ExtState    string
	ExtSubstate string
	LeftOut     string

	HasBase   bool
	BaseAgeNS int64        // between the two readings of the counters
	Deltas    cause.Deltas // not changed after it was set
	Top       string
	At        time.Time
}

// Key implements Point.
func (e *Evidence) Key() Key {
	return Key{Measurement: evidences.Name, Device: e.Device, Of: string(e.Trigger), Port: e.Port}
}

// Time implements Point.
func (e *Evidence) Time() time.Time { return e.At }

// Merge implements Point: the later one, and all triggers.
func (e *Evidence) Merge(later Point) {
	n := e.Triggers
	*e = *later.(*Evidence)
	e.Triggers += n
}

// Clone implements Point.
func (e *Evidence) Clone() Point { return clone(e) }

// Events implements Point.
func (*Evidence) Events() uint64 { return 0 }

// Lines implements Point.
func (e *Evidence) Lines(add func(Line)) { add(evidences.line(e)) }

var evidences = table[Evidence]{
	Metric: Metric{
		Name:    "rdma_evidence",
		Emitted: AsItHappens,
		Description: "The state of a port soon after something happened to it, and the cause where it is certain. It is taken " +
			"once at once for each port, then once a second and ten times a minute; evidence.snapshot_interval = \"0s\" " +
			"switches it off. It comes a second after its time, since what explains a trigger may come after it.",
	},
	tags: []tag[Evidence]{
		newTag("device", "name of the RDMA device", func(v *Evidence) string { return v.Device }),
		maybeTag("port", "number of the port; not with device_fatal and removed", func(v *Evidence) string { return portTag(v.Port) }),
		newTag("trigger", "port_err, device_fatal, gid_change, lid_change, pkey_change or sm_change; state (a change that only a query "+
			"found); lost_event, lost_completion; command (one is stuck); removed", func(v *Evidence) verbs.Trigger { return v.Trigger }),
	},
	fields: evidenceFields(),
}

func evidenceFields() []field[Evidence] {
	netDev := func(value func(*verbs.NetDev) (int64, bool)) func(*Evidence) (int64, bool) {
		return func(e *Evidence) (int64, bool) {
			if e.NetDev == nil {
				return 0, false
			}
			return value(e.NetDev)
		}
	}
	return []field[Evidence]{
		text("cause", "the cause where it is certain, see docs/reference/causes.md", func(v *Evidence) cause.Cause { return v.Cause }),
		counter("triggers", "1, and further triggers that this one is for", func(v *Evidence) uint64 { return v.Triggers }),
		maybe("age_ns", "ns", "from the trigger to the first reading", func(v *Evidence) (int64, bool) { return v.AgeNS, v.HasSnapshot }),
		maybe("took_ns", "ns", "from the first reading to the last", func(v *Evidence) (int64, bool) { return v.TookNS, v.HasSnapshot }),
		maybe("base_age_ns", "ns", "between the reading of the counters before and this one",
			func(v *Evidence) (int64, bool) { return v.BaseAgeNS, v.HasBase }),
		maybe("admin_up", "", "1 when the network device is administratively up",
			netDev(func(n *verbs.NetDev) (int64, bool) { return bit(n.AdminUp), true })),
		maybe("carrier", "", "1 when the network device has a carrier; not when it is administratively down",
			netDev(func(n *verbs.NetDev) (int64, bool) { return bit(n.Carrier), n.HasCarrier })),
		maybe("carrier_changes", "", "how often the carrier came or went since the network device was made",
			netDev(func(n *verbs.NetDev) (int64, bool) { return n.CarrierChanges, n.HasCarrierChanges })),
		maybe("changed", "", "counters that moved since the reading before",
			func(v *Evidence) (int64, bool) { return int64(len(v.Deltas)), v.HasBase }),
		text("ext_state", "why there is no link, in the words of ethtool(8); not with most drivers", func(v *Evidence) string { return v.ExtState }),
		text("top", "the eight counters that moved most, traffic last", func(v *Evidence) string { return v.Top }),
		text("left_out", "what was not asked or not answered, and why", func(v *Evidence) string { return v.LeftOut }),
	}
}
