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
	machine      portstate.Machine
	attr         verbs.PortAttr
	attrAt       int64          // when the query that returned attr began, CLOCK_MONOTONIC ns
	answered     bool           // attr is from the running worker
	emitted      verbs.PortAttr // attr of the last emitted point
	since        int64          // CLOCK_BOOTTIME ns of the last change
	expectedDown bool
	link         expect.Link
	returned     bool // the device has been in another network namespace, and the port has not been active since
	role         role
	queryError   lastError // why the last query failed
	refused      bool      // the firmware refuses reads of the port, and the log says so
	restricted   bool      // verbs.Reading.Restricted of the last reading
	probeError   lastError // why there is no probe
	probed       bool      // a method has been chosen

	smLID    int               // of the last query of the active port
	known    map[string]string // the last known value of each attribute of the active port, by name
	flapsDay dayCount
	bestGbps float64 // the greatest rate of the active port
	// comparedGbps is the rate expected by comparison with other ports at the last Gather (verbs.ExpectedRates); 0: none.
	comparedGbps float64
	netdev       string // the last network device that a query named; a port that is down may have no GID to name one
	legs         legs   // as last read
	legsRead     bool
	gids         gidtable.Differ
	gidMoves     uint64

	facts   facts
	quality quality

	viewStamp, changeStamp, gidStamp stamp
}

// legs counts the legs of the bond below a port.
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
	return &port{series: newSeries(number, verbs.ScopePort), expectedDown: expectedDown, known: map[string]string{}}
}

// resetForOpen prepares the port for the reports of a worker that has just opened the device.
func (p *port) resetForOpen() {
	p.machine.HandleOpened()
	p.gids.HandleOpened()
	p.quality.begun = false
	p.answered = false
}

// updateAttr stores the answer of a query, unless it is older than the stored answer, and
// reports whether it differs from the last emitted attributes. It ignores link_downed, which
// is a counter, and the state, which the machine decides.
func (p *port) updateAttr(mono int64, a *verbs.PortAttr) bool {
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

// reportAttrChanges calls changed for each attribute that differs from its last known value on
// the active port. An unknown value is skipped: the next value is compared with the last known
// one.
func (p *port) reportAttrChanges(mono int64, changed func(attr, from, to string)) {
	if p.attr.State != verbs.PortActive || p.attrAt != mono {
		return
	}
	for _, now := range stableAttrs(&p.attr) {
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

// recordSubnetManager records a change of the subnet manager's LID on the active port.
func (p *port) recordSubnetManager(mono int64) {
	if p.attr.State != verbs.PortActive || p.attrAt != mono {
		return
	}
	if was := p.smLID; was != 0 && was != p.attr.SMLID {
		p.facts.smLIDs = appendBounded(p.facts.smLIDs, smLIDChange{mono, was, p.attr.SMLID})
	}
	p.smLID = p.attr.SMLID
}

type namedAttr struct{ name, value string }

// stableAttrs returns the attributes of a port that do not change while the port works normally.
func stableAttrs(a *verbs.PortAttr) []namedAttr {
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

// makeChangePoint returns the point of a state change, and stores the time of the change.
func (p *port) makeChangePoint(device string, c *portstate.Change, t *moment) *measure.Change {
	p.since = t.bootAt(c.At)
	return &measure.Change{
		Device: device, Port: p.port, From: c.From, To: c.To, Witness: c.Witness,
		LastedNS: c.Lasted, HasLasted: c.HasLasted, Transitions: 1,
		At: p.changeStamp.next(t.wall(c.At), t.epoch),
	}
}

// updateLegs reads the legs of the bond below a port, and returns them. The caller holds d.mu.
func (d *Device) updateLegs(p *port, t *moment) legs {
	if p.netdev == "" {
		return p.legs
	}
	var now legs
	now.all, now.up, now.known = d.cfg.Legs(p.netdev)
	if p.legsRead && now.known && !p.legs.known {
		d.bondJoinedAt = t.mono
	}
	p.legs, p.legsRead = now, true
	return now
}

// isRepresentor reports whether the port represents a function of a card in switchdev mode, or is free for one. The caller holds d.mu.
func (d *Device) isRepresentor(p *port) bool { return d.attr.Uplink != 0 && p.port != d.attr.Uplink }

// makePoint returns a point of the port's present state with the given wall time. of has the attributes of the device.
func (p *port) makePoint(device string, t *moment, wall int64, of *verbs.DeviceAttr) *measure.Port {
	s := p.machine.View(t.mono)
	v := &measure.Port{
		Device: device, Port: p.port, Expected: p.expectedDown, Role: p.role.name, Known: p.answered, Restricted: p.restricted,
		HasState: s.Known, State: s.State, Attr: p.attr, AlwaysActive: of.AlwaysActive, Cable: of.Cable(p.port), RateBestGbps: p.bestGbps,
		Legs: p.legs.all, LegsUp: p.legs.up, HasLegs: p.legs.known,
		Transitions: s.Transitions, Flaps: s.Flaps, DownNS: s.Down,
		FlapsDay:          p.flapsDay.recordTotal(s.Flaps, t.boot),
		MissedTransitions: s.Missed, PhantomEvents: s.Phantoms, GIDMoves: p.gidMoves, Quality: p.quality.Quality,
		At: p.viewStamp.next(wall, t.epoch),
	}
	v.GIDs, v.HasGIDs = p.gids.Count()
	if s.HasSince {
		v.StateAgeNS, v.HasStateAge = max(0, t.boot-p.since), true
	}
	return v
}
