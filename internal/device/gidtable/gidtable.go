package gidtable

import (
	"slices"

	"rdma_events/internal/device/verbs"
)

// Change is one change of a port's GID table. A GID that appears has moved or returned if the
// Differ remembers it, else it is added.
type Change struct {
	Action   verbs.GIDAction
	GID      verbs.GID // with its present index, or its last index if it was removed
	From     int       // the index before the change; -1: none
	To       int       // the index after the change; -1: none
	Away     int64     // ns from the first reading without the GID to this reading; 0: the GID was in every reading
	Probed   bool      // a probe of the plugin sent from index From
	Reopened bool      // found by the first reading of a new worker, so the change may be older
}

// maxAway limits how many absent GIDs a Differ remembers.
const maxAway = 1024

// Differ compares successive readings of one port's GID table. The zero Differ has no reading
// yet. It is not safe for concurrent use.
type Differ struct {
	known    bool
	reopened bool
	table    []verbs.GID
	probed   []int
	away     map[identity]absence
}

// identity identifies a GID at any index. The default GIDs of a network device and of its
// VLANs have equal addresses, so the identity includes the network device.
type identity struct {
	raw    [16]byte
	typ    verbs.GIDType
	netdev string
}

func identityOf(g *verbs.GID) identity { return identity{g.Raw, g.Type, g.NetDev} }

// absence describes an absent GID.
type absence struct {
	index int   // its last index
	since int64 // the time of the first reading without it, CLOCK_MONOTONIC ns
}

// HandleOpened handles a worker that has opened the device: the changes in its first reading
// may be much older than the reading, also if the device was removed and came back.
func (d *Differ) HandleOpened() { d.reopened = d.known }

// Count returns the number of GIDs of the last reading, and whether there was one.
func (d *Differ) Count() (n int, known bool) { return len(d.table), d.known }

// Update handles a reading, and returns the changes since the last one: first the GIDs that went,
// in the order of their old indexes, then the GIDs that appeared or moved, in the order of their new
// indexes. The first reading is the baseline and has no changes. A GID that kept its index has
// not changed, even if its network device has another name.
func (d *Differ) Update(t *verbs.GIDTable) []Change {
	first, reopened, probed := !d.known, d.reopened, slices.Concat(d.probed, t.Probed)
	went, came := missingFrom(d.table, t.Entries), missingFrom(t.Entries, d.table)
	d.table, d.probed = slices.Clone(t.Entries), slices.Clone(t.Probed)
	d.known, d.reopened = true, false
	if first {
		return nil
	}
	var changes []Change
	add := func(c Change) {
		c.Reopened = reopened
		c.Probed = c.From >= 0 && slices.Contains(probed, c.From)
		changes = append(changes, c)
	}
	old, now := firstIndexes(went), firstIndexes(came)
	for _, g := range went {
		if _, moved := now[identityOf(&g)]; !moved {
			add(Change{Action: verbs.GIDRemoved, GID: g, From: g.Index, To: -1})
			d.rememberAbsent(identityOf(&g), absence{g.Index, t.Mono})
		}
	}
	for _, g := range came {
		add(d.classifyArrival(g, old, t.Mono))
		delete(d.away, identityOf(&g))
	}
	return changes
}

// classifyArrival returns the change of a GID at an index at which it was not before. old has the
// old indexes of the GIDs that have left them since the last reading.
func (d *Differ) classifyArrival(g verbs.GID, old map[identity]int, mono int64) Change {
	if was, moved := old[identityOf(&g)]; moved {
		return Change{Action: verbs.GIDMoved, GID: g, From: was, To: g.Index}
	}
	away, back := d.away[identityOf(&g)]
	if !back {
		return Change{Action: verbs.GIDAdded, GID: g, From: -1, To: g.Index}
	}
	c := Change{Action: verbs.GIDMoved, GID: g, From: away.index, To: g.Index, Away: mono - away.since}
	if c.From == c.To {
		c.Action = verbs.GIDReturned
	}
	return c
}

// missingFrom returns the GIDs of a that b does not have at the same index.
func missingFrom(a, b []verbs.GID) []verbs.GID {
	type slot struct {
		index int
		raw   [16]byte
		typ   verbs.GIDType
	}
	have := map[slot]bool{}
	for _, g := range b {
		have[slot{g.Index, g.Raw, g.Type}] = true
	}
	var rest []verbs.GID
	for _, g := range a {
		if !have[slot{g.Index, g.Raw, g.Type}] {
			rest = append(rest, g)
		}
	}
	return rest
}

// firstIndexes returns the first index of each GID.
func firstIndexes(table []verbs.GID) map[identity]int {
	at := map[identity]int{}
	for i := range table {
		if _, have := at[identityOf(&table[i])]; !have {
			at[identityOf(&table[i])] = table[i].Index
		}
	}
	return at
}

// rememberAbsent records an absent GID. Above maxAway it drops the one that has been absent
// longest.
func (d *Differ) rememberAbsent(id identity, a absence) {
	if d.away == nil {
		d.away = map[identity]absence{}
	}
	d.away[id] = a
	if len(d.away) <= maxAway {
		return
	}
	oldest := id
	for other, o := range d.away {
		if o.since < d.away[oldest].since {
			oldest = other
		}
	}
	delete(d.away, oldest)
}
