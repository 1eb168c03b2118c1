package measure

import (
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
)

// GIDChange is a point of rdma_gid_change.
type GIDChange struct {
	Device   string
	Port     int
	Action   verbs.GIDAction
	GID      verbs.GID
	From     int    // index before the change; -1: none
	To       int    // index after the change; -1: none
	AwayNS   int64  // time between the reading without the GID and the reading with it; 0: both readings have it
	Probed   bool   // a probe of this plugin sent from index From
	Reopened bool   // found by the first reading of a new worker
	Changes  uint64 // 1, or more if points merged
	At       time.Time
}

// Key implements Point. Changes of different GIDs do not merge.
func (g *GIDChange) Key() Key {
	return Key{
		Measurement: gidChangeTable.Name, Device: g.Device, Subject: string(g.Action), Port: g.Port,
		Identity: g.GID.Type.String() + " " + g.GID.String(),
	}
}

// Time implements Point.
func (g *GIDChange) Time() time.Time { return g.At }

// Merge implements Point. It keeps the first From and the last To, and adds the changes.
func (g *GIDChange) Merge(later Point) {
	from, n, probed := g.From, g.Changes, g.Probed
	*g = *later.(*GIDChange)
	g.From, g.Probed = from, probed || g.Probed
	g.Changes += n
}

// Clone implements Point.
func (g *GIDChange) Clone() Point { return clone(g) }

// Events implements Point.
func (*GIDChange) Events() uint64 { return 0 }

// Lines implements Point.
func (g *GIDChange) Lines(add func(Line)) { add(gidChangeTable.line(g)) }

var gidChangeTable = table[GIDChange]{
	Metric: Metric{
		Name:    "rdma_gid_change",
		Emitted: AsItHappens,
		Description: "A change of a port's GID table. The plugin reads the table after each gid_change event and every " +
			"evidence.gid_interval. After a move, programs that select a GID by its index, as NCCL does, use another address or none. " +
			"Changes of one GID above max_event_points merge into a point with the first index_from, the last index_to and the sum of changes.",
	},
	tags: []tag[GIDChange]{
		requiredTag("device", "name of the RDMA device", func(v *GIDChange) string { return v.Device }),
		requiredTag("port", "number of the port, from 1", func(v *GIDChange) string { return strconv.Itoa(v.Port) }),
		requiredTag("action", "added, removed, moved (the GID came back at another index, or the next reading found it at another one) or "+
			"returned (the GID came back at the same index)", func(v *GIDChange) verbs.GIDAction { return v.Action }),
	},
	fields: []field[GIDChange]{
		optionalInt("index_from", "", "index before the change; not with action=added",
			func(v *GIDChange) (int64, bool) { return int64(v.From), v.From >= 0 }),
		optionalInt("index_to", "", "index after the change; not with action=removed",
			func(v *GIDChange) (int64, bool) { return int64(v.To), v.To >= 0 }),
		optionalInt("away_ns", "ns", "time between the reading without the GID and the reading with it; not if both readings have it",
			func(v *GIDChange) (int64, bool) { return v.AwayNS, v.AwayNS > 0 }),
		boolInt("own_probe", "1 if a probe of the plugin sent from index_from",
			func(v *GIDChange) bool { return v.Probed }),
		optionalText("gid", "the GID, in IPv6 notation", func(v *GIDChange) string { return v.GID.String() }),
		optionalText("type", "type of the GID: ib, roce_v1 or roce_v2", func(v *GIDChange) string { return v.GID.Type.String() }),
		optionalText("netdev", "name of the network device", func(v *GIDChange) string { return v.GID.NetDev }),
		boolInt("reopened", "1 if the first reading of a new worker found the change, which may have happened earlier",
			func(v *GIDChange) bool { return v.Reopened }),
		counter("changes", "changes in this point: 1, or more if changes merged", func(v *GIDChange) uint64 { return v.Changes }),
	},
}
