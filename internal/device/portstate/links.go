package portstate

import "rdma_events/internal/device/verbs"

// linkDowns compares the driver's counter link_downed with the down transitions that were
// seen. The counter may have any value at the first query, may be absent, and may be
// reset. After a reset the comparison starts again, and the missed transitions stay.
//
// The counter is ahead while an event is still on its way. So a lead counts as missed
// only if it is still unexplained after Patience. Each down transition in between
// explains one. Likewise the counter is behind until the driver updates it. A lag that
// remains after Patience is a down transition that the driver does not count at all, for
// example because an administrator took the link down. It must not hide a later drop.
type linkDowns struct {
	set       bool
	base      uint64 // link_downed when the comparison began
	last      uint64 // link_downed at the last query
	downs     uint64 // down transitions when the comparison began
	uncounted uint64 // down transitions since then that the driver does not count
	known     uint64 // part of missed that belongs to this comparison
	missed    uint64

	ahead, behind gap
}

// gap is by how much the counter differs in one direction.
type gap struct {
	size uint64 // the least since at
	at   int64
}

// lasting updates the gap to its present size, and returns the part of it that has lasted
// for Patience. It removes that part from the gap.
func (g *gap) lasting(mono int64, size uint64) uint64 {
	if g.size == 0 {
		g.size, g.at = size, mono
		return 0
	}
	g.size = min(g.size, size)
	if mono-g.at < int64(Patience) {
		return 0
	}
	lasted := g.size
	g.size, g.at = size-lasted, mono
	return lasted
}

// shrink removes the n that are explained now from the gap, which may have grown by
// others since.
func (g *gap) shrink(n uint64) { g.size -= min(g.size, n) }

func (l *linkDowns) forget() {
	l.set, l.ahead.size, l.behind.size = false, 0, 0
}

func (l *linkDowns) explain() { l.ahead.shrink(1) }

// compare handles the answer of a query that began at mono. downs is the number of down
// transitions so far.
func (l *linkDowns) compare(mono int64, a *verbs.PortAttr, downs uint64) {
	if !a.HasLinkDowned {
		return
	}
	if !l.set || a.LinkDowned < l.last {
		*l = linkDowns{set: true, base: a.LinkDowned, last: a.LinkDowned, downs: downs, missed: l.missed}
	}
	l.behind.shrink(a.LinkDowned - l.last)
	l.last = a.LinkDowned
	counted, explained := l.last-l.base+l.uncounted, downs-l.downs+l.known
	switch {
	case counted > explained:
		l.behind.size = 0
		n := l.ahead.lasting(mono, counted-explained)
		l.known += n
		l.missed += n
	case counted < explained:
		l.ahead.size = 0
		l.uncounted += l.behind.lasting(mono, explained-counted)
	default:
		l.ahead.size, l.behind.size = 0, 0
	}
}
