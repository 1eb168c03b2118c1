package portstate

import "rdma_events/internal/device/verbs"

// linkDowns compares the driver's counter link_downed with the down transitions of the
// Machine. The counter may have any value at the first query, may be absent, and may be
// reset. After a reset the comparison restarts, and the missed transitions so far remain.
//
// The counter is ahead while an event is still on its way. So a lead counts as missed
// transitions only if it remains unexplained after Patience. Each down transition in between
// explains one. Likewise the counter is behind until the driver updates it. A lag that
// remains after Patience is a down transition that the driver does not count at all, for
// example because an administrator took the link down. It must not hide a later drop.
type linkDowns struct {
	set       bool
	base      uint64 // link_downed when the comparison began
	last      uint64 // link_downed at the last query
	downs     uint64 // down transitions when the comparison began
	uncounted uint64 // down transitions since then that the driver does not count
	known     uint64 // the part of missed that belongs to this comparison
	missed    uint64

	ahead, behind gap
}

// gap is the difference between counter and transitions in one direction.
type gap struct {
	size uint64 // the smallest difference since at
	at   int64  // CLOCK_MONOTONIC ns
}

// takeLasting updates the gap to its present size, and removes and returns the part of it
// that has lasted for Patience.
func (g *gap) takeLasting(mono int64, size uint64) uint64 {
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

// shrink removes n explained transitions from the gap, or all of them if there are fewer.
func (g *gap) shrink(n uint64) { g.size -= min(g.size, n) }

// restart makes the comparison begin again with the next query.
func (l *linkDowns) restart() {
	l.set, l.ahead.size, l.behind.size = false, 0, 0
}

// explainOne handles a down transition, which explains one step of the counter.
func (l *linkDowns) explainOne() { l.ahead.shrink(1) }

// compareCounter handles the answer of a query that began at mono. downs is the number of
// down transitions so far.
func (l *linkDowns) compareCounter(mono int64, a *verbs.PortAttr, downs uint64) {
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
		n := l.ahead.takeLasting(mono, counted-explained)
		l.known += n
		l.missed += n
	case counted < explained:
		l.ahead.size = 0
		l.uncounted += l.behind.takeLasting(mono, explained-counted)
	default:
		l.ahead.size, l.behind.size = 0, 0
	}
}
