package monitor

import (
	"rdma_events/internal/measure"
	"rdma_events/internal/portstate"
	"rdma_events/internal/verbs"
)

// port is one port of a device.
type port struct {
	series
	machine  portstate.Machine
	attr     verbs.PortAttr
	attrAt   int64 // when the query of attr began, CLOCK_MONOTONIC ns
	answered bool  // attr is of the worker that runs
	told     verbs.PortAttr
	since    int64 // CLOCK_BOOTTIME ns of the last change
	expected bool
	unread   trouble // why the last query failed
	unprobed trouble // why there is no probe
	probed   bool    // a method has been chosen

	viewStamp, changeStamp stamp
}

// trouble is worth a line when it is another one than before.
type trouble struct{ last string }

// news takes what is wrong now, "" for nothing, and reports whether to say it.
func (t *trouble) news(text string) bool {
	changed := text != t.last
	t.last = text
	return changed && text != ""
}

func newPort(number int, expectedDown bool) *port {
	return &port{series: newSeries(number, verbs.ScopePort), expected: expectedDown}
}

// opened says that a worker has opened the device.
func (p *port) opened() {
	p.machine.Opened()
	p.answered = false
}

// take keeps what a query answered and reports whether there is news in it:
// not link_downed, which is a counter, nor the state, on which the machine has
// the last word.
func (p *port) take(mono int64, a *verbs.PortAttr) bool {
	if p.answered && mono < p.attrAt {
		return false
	}
	p.attr, p.attrAt = *a, mono
	a = &p.attr
	before := p.told
	before.State = a.State
	before.LinkDowned, before.HasLinkDowned = a.LinkDowned, a.HasLinkDowned
	news := !p.answered || before != *a
	p.answered = true
	return news
}

func (p *port) change(device string, c *portstate.Change, t *moment) *measure.Change {
	p.since = t.bootAt(c.At)
	return &measure.Change{
		Device: device, Port: p.port, From: c.From, To: c.To, Witness: c.Witness,
		LastedNS: c.Lasted, HasLasted: c.HasLasted, Transitions: 1,
		At: p.changeStamp.next(t.wall(c.At), t.epoch),
	}
}

// view returns the port as it is now, in a point with the given wall time.
func (p *port) view(device string, t *moment, wall int64) *measure.Port {
	s := p.machine.View(t.mono)
	v := &measure.Port{
		Device: device, Port: p.port, Expected: p.expected, Known: p.answered,
		HasState: s.Known, State: s.State, Attr: p.attr,
		Transitions: s.Transitions, Flaps: s.Flaps, DownNS: s.Down,
		MissedTransitions: s.Missed, PhantomEvents: s.Phantoms,
		At: p.viewStamp.next(wall, t.epoch),
	}
	if s.HasSince {
		v.StateAgeNS, v.HasStateAge = max(0, t.boot-p.since), true
	}
	return v
}
