package monitor

import (
	"strconv"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/gidtable"
	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// port is one port of a device.
type port struct {
	series
	machine    portstate.Machine
	attr       verbs.PortAttr
	attrAt     int64          // when the query of attr began, CLOCK_MONOTONIC ns
	answered   bool           // attr is from the running worker
	emitted    verbs.PortAttr // of the last emitted point
	since      int64          // CLOCK_BOOTTIME ns of the last change
	expected   bool
	link       expect.Link
	returned   bool // the device has been in another network namespace, and the port has not been active since
	role       role
	queryError lastError // why the last query failed
	refused    bool      // the firmware refuses reads of the port, and a line says so
	probeError lastError // why there is no probe
	probed     bool      // a method has been chosen

	smLID    int               // of the last query of the active port
	known    map[string]string // the attributes of the active port that were known last, by name
	flapsDay dayCount
	bestGbps float64 // the greatest rate of the active port
	// comparedGbps is what the other ports showed at the last Gather (verbs.ExpectedRates); 0: nothing.
	comparedGbps float64
	netdev       string // the last network device that a query named: a port that is down may have no GID that does
	legs         legs   // of the last emitted point
	gids         gidtable.Differ
	gidMoves     uint64

	facts   facts
	quality quality

	viewStamp, changeStamp, gidStamp stamp
}

// legs are those of the bond below a port.
type legs struct {
	all, up int
	known   bool // there is a bond
}

// lastError is the text of the last error, which is logged only when it changes.
type lastError struct{ text string }

// update stores the present error, "" for none, and reports whether to log it.
func (e *lastError) update(text string) bool {
	changed := text != e.text
	e.text = text
	return changed && text != ""
}

func newPort(number int, expectedDown bool) *port {
	return &port{series: newSeries(number, verbs.ScopePort), expected: expectedDown, known: map[string]string{}}
}

// opened handles the opening of the device by a worker.
func (p *port) opened() {
	p.machine.Opened()
	p.gids.Opened()
	p.quality.begun = false
	p.answered = false
}

// update stores the answer of a query, unless it is older than the stored one, and
// reports whether it has changed. It does not compare link_downed, which is a counter,
// nor the state, which the machine decides.
func (p *port) update(mono int64, a *verbs.PortAttr) bool {
	if p.answered && mono < p.attrAt {
		return false
	}
	p.attr, p.attrAt = *a, mono
	if a.NetDev != "" {
		p.netdev = a.NetDev
	}
	if a.State == verbs.PortActive {
		p.bestGbps = max(p.bestGbps, a.RateGbps)
	}
	a = &p.attr
	before := p.emitted
	before.State = a.State
	before.LinkDowned, before.HasLinkDowned = a.LinkDowned, a.HasLinkDowned
	changed := !p.answered || before != *a
	p.answered = true
	return changed
}

// compare calls changed for each attribute that differs from the one that was known last
// of the active port. A value that is unknown is no value: the next one is compared with
// the one before it.
func (p *port) compare(mono int64, changed func(attr, from, to string)) {
	if p.attr.State != verbs.PortActive || p.attrAt != mono {
		return
	}
	for _, now := range attrsOf(&p.attr) {
		if now.value == "" {
			continue
		}
		from := p.known[now.name]
		p.known[now.name] = now.value
		if from != "" && from != now.value {
			changed(now.name, from, now.value)
		}
	}
}

// noteSubnetManager remembers a change of the LID of the active port's subnet manager.
func (p *port) noteSubnetManager(mono int64) {
	if p.attr.State != verbs.PortActive || p.attrAt != mono {
		return
	}
	if was := p.smLID; was != 0 && was != p.attr.SMLID {
		p.facts.smLIDs = remember(p.facts.smLIDs, smLIDChange{mono, was, p.attr.SMLID})
	}
	p.smLID = p.attr.SMLID
}

type namedAttr struct{ name, value string }

// attrsOf returns the attributes of a port that do not change while it works.
func attrsOf(a *verbs.PortAttr) []namedAttr {
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	gbps := func(rate float64) string {
		if rate <= 0 {
			return ""
		}
		return strconv.FormatFloat(rate, 'g', -1, 64)
	}
	return []namedAttr{
		{"lid", number(a.LID)}, {"sm_lid", number(a.SMLID)}, {"mtu", number(a.MTU)},
		{"rate", gbps(a.RateGbps)}, {"rate_effective", gbps(a.EffectiveGbps)}, {"width", a.Width}, {"netdev", a.NetDev},
	}
}

func (p *port) change(device string, c *portstate.Change, t *moment) *measure.Change {
	p.since = t.bootAt(c.At)
	return &measure.Change{
		Device: device, Port: p.port, From: c.From, To: c.To, Witness: c.Witness,
		LastedNS: c.Lasted, HasLasted: c.HasLasted, Transitions: 1,
		At: p.changeStamp.next(t.wall(c.At), t.epoch),
	}
}

// legsNow returns the legs of the bond below the port.
func (p *port) legsNow(of func(netdev string) (legs, up int, ok bool)) (l legs) {
	if p.netdev != "" {
		l.all, l.up, l.known = of(p.netdev)
	}
	return l
}

// view returns the port as it is now, in a point with the given wall time. of are the attributes of its device.
func (p *port) view(device string, t *moment, wall int64, of *verbs.DeviceAttr) *measure.Port {
	s := p.machine.View(t.mono)
	v := &measure.Port{
		Device: device, Port: p.port, Expected: p.expected, Role: p.role.name, Known: p.answered,
		HasState: s.Known, State: s.State, Attr: p.attr, AlwaysActive: of.AlwaysActive, Cable: of.Cable(p.port), RateBestGbps: p.bestGbps,
		Legs: p.legs.all, LegsUp: p.legs.up, HasLegs: p.legs.known,
		Transitions: s.Transitions, Flaps: s.Flaps, DownNS: s.Down,
		FlapsDay:          p.flapsDay.within(s.Flaps, t.boot),
		MissedTransitions: s.Missed, PhantomEvents: s.Phantoms, GIDMoves: p.gidMoves, Quality: p.quality.Quality,
		At: p.viewStamp.next(wall, t.epoch),
	}
	v.GIDs, v.HasGIDs = p.gids.Count()
	if s.HasSince {
		v.StateAgeNS, v.HasStateAge = max(0, t.boot-p.since), true
	}
	return v
}
