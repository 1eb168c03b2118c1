package gidtable

import (
	"slices"

	"rdma_events/internal/verbs"
)

// Change is one change of a port's GID table. A GID whose return the Differ remembers has
// moved or returned; any other is added.
type Change struct {
	Action   verbs.GIDAction
	GID      verbs.GID // with its present index, or its last one if it was removed
	From     int       // the index before; -1: none
	To       int       // the index now; -1: none
	Away     int64     // ns between the reading without it and this one; 0: it was in every reading
	Probed   bool      // a probe of ours sent from index From
	Reopened bool      // found by the first reading of a new worker, so it may have happened earlier
}

// maxAway is the most GIDs whose return a Differ remembers.
const maxAway = 1024

// Differ holds the last reading of one port's GID table. The zero value has none. It is
// not safe for concurrent use.
type Differ struct {
	known    bool
	reopened bool
	table    []verbs.GID
	probed   []int
	away     map[identity]absence
}

// identity is what makes a GID the same one at another index. The default GIDs of a netdev
// and of its VLANs have equal addresses, so the netdev is part of it.
type identity struct {
	raw    [16]byte
	typ    verbs.GIDType
	netdev string
}

func identityOf(g *verbs.GID) identity { return identity{g.Raw, g.Type, g.NetDev} }

// absence is where a GID was, and since when it is away.
type absence struct {
	index int
	since int64
}

// Opened handles a worker that has opened the device: its first reading may come long after
// the changes that it shows. That is so, too, if the device was removed and came back.
func (d *Differ) Opened() { d.reopened = d.known }

// Count returns the number of GIDs of the last reading, and whether there was one.
func (d *Differ) Count() (n int, known bool) { return len(d.table), d.known }

// Read handles a reading and returns what has changed since the one before: what went, in
// the order of the old indexes, and then what came, in the order of the new ones. The first
// reading is the baseline and returns nothing.
func (d *Differ) Read(t *verbs.GIDTable) []Change {
	before, probed := d.table, append(d.probed, t.Probed...)
	first, reopened := !d.known, d.reopened
	d.table, d.probed = slices.Clone(t.Entries), slices.Clone(t.Probed)
	d.known, d.reopened = true, false
	if first {
		return nil
	}
	old, now := places(before), places(d.table)
	var changes []Change
	add := func(c Change) {
		c.Reopened = reopened
		c.Probed = c.From >= 0 && slices.Contains(probed, c.From)
		changes = append(changes, c)
	}
	for i := range before {
		g := &before[i]
		if _, there := now[identityOf(g)]; !there && old[identityOf(g)] == g.Index {
			add(Change{Action: verbs.GIDRemoved, GID: *g, From: g.Index, To: -1})
			d.remember(identityOf(g), absence{g.Index, t.Mono})
		}
	}
	for i := range d.table {
		g := &d.table[i]
		id := identityOf(g)
		if now[id] != g.Index {
			continue
		}
		was, stayed := old[id]
		switch away, back := d.away[id]; {
		case stayed && was == g.Index:
		case stayed:
			add(Change{Action: verbs.GIDMoved, GID: *g, From: was, To: g.Index})
		case back && away.index == g.Index:
			add(Change{Action: verbs.GIDReturned, GID: *g, From: away.index, To: g.Index, Away: t.Mono - away.since})
		case back:
			add(Change{Action: verbs.GIDMoved, GID: *g, From: away.index, To: g.Index, Away: t.Mono - away.since})
		default:
			add(Change{Action: verbs.GIDAdded, GID: *g, From: -1, To: g.Index})
		}
		delete(d.away, id)
	}
	return changes
}

// places returns the first index of each GID.
func places(table []verbs.GID) map[identity]int {
	at := map[identity]int{}
	for i := range table {
		if _, have := at[identityOf(&table[i])]; !have {
			at[identityOf(&table[i])] = table[i].Index
		}
	}
	return at
}

// remember notes that a GID is away. If there are too many, the one that is away for the
// longest time is forgotten.
func (d *Differ) remember(id identity, a absence) {
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
