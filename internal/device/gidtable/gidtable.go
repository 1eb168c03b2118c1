package gidtable

import (
	"slices"

	"rdma_events/internal/device/verbs"
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
// reading is the baseline and returns nothing. A GID that kept its index has not changed,
// whatever its network device is called now.
func (d *Differ) Read(t *verbs.GIDTable) []Change {
	first, reopened, probed := !d.known, d.reopened, slices.Concat(d.probed, t.Probed)
	went, came := without(d.table, t.Entries), without(t.Entries, d.table)
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
	old, now := places(went), places(came)
	for _, g := range went {
		if _, moved := now[identityOf(&g)]; !moved {
			add(Change{Action: verbs.GIDRemoved, GID: g, From: g.Index, To: -1})
			d.remember(identityOf(&g), absence{g.Index, t.Mono})
		}
	}
	for _, g := range came {
		add(d.arrival(g, old, t.Mono))
		delete(d.away, identityOf(&g))
	}
	return changes
}

// arrival returns the change of a GID that is at an index where it was not before. old has
// the indexes of those that left theirs since the last reading.
func (d *Differ) arrival(g verbs.GID, old map[identity]int, mono int64) Change {
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

// without returns the GIDs of a that b has not at the same index.
func without(a, b []verbs.GID) []verbs.GID {
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
