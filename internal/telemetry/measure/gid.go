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
	From     int    // index before; -1: none
	To       int    // index now; -1: none
	AwayNS   int64  // between the readings without it and with it; 0: it was in both
	Probed   bool   // a probe of this plugin sent from index From
	Reopened bool   // found by the first reading of a new worker
	Changes  uint64 // 1, or more when merged
	At       time.Time
}

// Key implements Point. Changes of different GIDs do not merge.
func (g *GIDChange) Key() Key {
	return Key{
		Measurement: gidChanges.Name, Device: g.Device, Of: string(g.Action), Port: g.Port,
		Identity: g.GID.Type.String() + " " + g.GID.String(),
	}
}

// Time implements Point.
func (g *GIDChange) Time() time.Time { return g.At }

// Merge implements Point: the first index_from, the last index_to, and all changes.
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
func (g *GIDChange) Lines(add func(Line)) { add(gidChanges.line(g)) }

var gidChanges = table[GIDChange]{
	Metric: Metric{
		Name:    "rdma_gid_change",
		Emitted: AsItHappens,
		Description: "A change of a port's GID table, seen by the reading after gid_change or by that of evidence.gid_interval. " +
			"Programs that name a GID by its index, as NCCL does, use another address or none after a move. " +
			"Changes of one GID above max_event_points merge: the first index_from, the last index_to, and the sum of changes.",
	},
	tags: []tag[GIDChange]{
		newTag("device", "name of the RDMA device", func(v *GIDChange) string { return v.Device }),
		newTag("port", "number of the port, from 1", func(v *GIDChange) string { return strconv.Itoa(v.Port) }),
		newTag("action", "added, removed, moved (it came back at another index, or was at another one at the next reading) or "+
			"returned (at the same index)", func(v *GIDChange) verbs.GIDAction { return v.Action }),
	},
	fields: []field[GIDChange]{
		maybe("index_from", "", "index before; not with added",
			func(v *GIDChange) (int64, bool) { return int64(v.From), v.From >= 0 }),
		maybe("index_to", "", "index now; not with removed",
			func(v *GIDChange) (int64, bool) { return int64(v.To), v.To >= 0 }),
		maybe("away_ns", "ns", "time between the readings without it and with it; not if it was in both",
			func(v *GIDChange) (int64, bool) { return v.AwayNS, v.AwayNS > 0 }),
		yesNo("own_probe", "1 when a probe of this plugin sent from index_from",
			func(v *GIDChange) bool { return v.Probed }),
		text("gid", "the GID, in the notation of IPv6", func(v *GIDChange) string { return v.GID.String() }),
		text("type", "ib, roce_v1 or roce_v2", func(v *GIDChange) string { return v.GID.Type.String() }),
		text("netdev", "name of the network device", func(v *GIDChange) string { return v.GID.NetDev }),
		yesNo("reopened", "1 when found by the first reading of a new worker: it may have happened earlier",
			func(v *GIDChange) bool { return v.Reopened }),
		counter("changes", "1, or more when merged", func(v *GIDChange) uint64 { return v.Changes }),
	},
}
