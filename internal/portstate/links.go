package portstate

import "rdma_events/internal/verbs"

// linkDowns compares the driver's link_downed with the down transitions that
// were seen. The counter has any value at the first look, may be absent, and
// may be reset; then the comparison starts anew and what was missed stays.
//
// The counter runs ahead while an event is still on its way, so what it is
// ahead is believed only when it is still unexplained Patience later. Each
// down transition in between explains one. Likewise it stays behind until the
// driver updates it; what it is behind Patience later is not counted at all, as
// where an administrator took the link down, and must not hide a drop that comes
// after it.
type linkDowns struct {
	set       bool
	base      uint64 // link_downed where the comparison began
	last      uint64 // link_downed at the last look
	downs     uint64 // down transitions where the comparison began
	uncounted uint64 // of those since, what the driver does not count
	known     uint64 // of missed, what belongs to this comparison
	missed    uint64

	ahead, behind gap
}

// gap is by how much the counter differs in one direction.
type gap struct {
	size uint64 // the least since at
	at   int64
}

// lasting takes the gap as it is now, and returns how much of it has been there for
// Patience; that is over then.
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

// shrink says that n of the gap have been made up for, though others may have come.
func (g *gap) shrink(n uint64) { g.size -= min(g.size, n) }

func (l *linkDowns) forget() {
	l.set, l.ahead.size, l.behind.size = false, 0, 0
}

func (l *linkDowns) explain() { l.ahead.shrink(1) }

func (l *linkDowns) look(mono int64, a *verbs.PortAttr, downs uint64) {
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
