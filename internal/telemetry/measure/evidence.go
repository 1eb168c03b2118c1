package measure

import (
	"time"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/verbs"
)

// Evidence is a point of rdma_evidence.
type Evidence struct {
	Device   string
	Port     int // 0: the evidence is about the device
	Trigger  verbs.Trigger
	Cause    cause.Cause
	Triggers uint64 // 1, plus the triggers that came while the snapshot waited for its turn; more if points merged

	HasSnapshot bool
	AgeNS       int64 // from the trigger to the first reading
	TookNS      int64
	NetDev      *verbs.NetDev // nil: not known; never changed once it is set
	ExtState    string
	ExtSubstate string
	LeftOut     string

	HasBase   bool
	BaseAgeNS int64        // between the two counter readings
	Deltas    cause.Deltas // never changed once it is set
	Top       string
	At        time.Time
}

// Key implements Point.
func (e *Evidence) Key() Key {
	return Key{Measurement: evidenceTable.Name, Device: e.Device, Subject: string(e.Trigger), Port: e.Port}
}

// Time implements Point.
func (e *Evidence) Time() time.Time { return e.At }

// Merge implements Point. The later point replaces this one, and the triggers add up.
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
func (e *Evidence) Lines(add func(Line)) { add(evidenceTable.line(e)) }

var evidenceTable = table[Evidence]{
	Metric: Metric{
		Name:    "rdma_evidence",
		Emitted: AsItHappens,
		Description: "State of a port shortly after a trigger, and the cause if it is certain. For each port, the plugin takes the first " +
			"snapshot immediately and then at most one a second and ten a minute; evidence.snapshot_interval = \"0s\" switches " +
			"them off. The plugin emits a point one second after its time, because the explanation of a trigger may arrive after it.",
	},
	tags: []tag[Evidence]{
		requiredTag("device", "name of the RDMA device", func(v *Evidence) string { return v.Device }),
		optionalTag("port", "number of the port; not with the triggers device_fatal and removed", func(v *Evidence) string { return portTag(v.Port) }),
		requiredTag("trigger", "port_err, device_fatal, gid_change, lid_change, pkey_change, sm_change, state (a state change that only a query "+
			"found), lost_event, lost_completion, command (a command is stuck) or removed", func(v *Evidence) verbs.Trigger { return v.Trigger }),
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
		optionalText("cause", "cause, if it is certain; docs/reference/causes.md lists the causes", func(v *Evidence) cause.Cause { return v.Cause }),
		counter("triggers", "triggers that this point covers: 1 or more", func(v *Evidence) uint64 { return v.Triggers }),
		optionalInt("age_ns", "ns", "time from the trigger to the first reading", func(v *Evidence) (int64, bool) { return v.AgeNS, v.HasSnapshot }),
		optionalInt("took_ns", "ns", "time from the first reading to the last one", func(v *Evidence) (int64, bool) { return v.TookNS, v.HasSnapshot }),
		optionalInt("base_age_ns", "ns", "time between the previous counter reading and this one",
			func(v *Evidence) (int64, bool) { return v.BaseAgeNS, v.HasBase }),
		optionalInt("admin_up", "", "1 if the network device is administratively up",
			netDev(func(n *verbs.NetDev) (int64, bool) { return boolToInt(n.AdminUp), true })),
		optionalInt("carrier", "", "1 if the network device has a carrier; not while it is administratively down",
			netDev(func(n *verbs.NetDev) (int64, bool) { return boolToInt(n.Carrier), n.HasCarrier })),
		optionalInt("carrier_changes", "", "times the carrier came or went since the network device was created",
			netDev(func(n *verbs.NetDev) (int64, bool) { return n.CarrierChanges, n.HasCarrierChanges })),
		optionalInt("changed", "", "counters that changed since the previous reading",
			func(v *Evidence) (int64, bool) { return int64(len(v.Deltas)), v.HasBase }),
		optionalText("ext_state", "why there is no link, in the words of ethtool(8); most drivers do not report it", func(v *Evidence) string { return v.ExtState }),
		optionalText("top", "the eight counters that changed most, traffic counters last", func(v *Evidence) string { return v.Top }),
		optionalText("left_out", "readings that were skipped or not answered, and why", func(v *Evidence) string { return v.LeftOut }),
	}
}
