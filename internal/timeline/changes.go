package timeline

import (
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
)

// Changes makes records of points, and remembers what it needs to see what is new. It is not
// safe for concurrent use.
type Changes struct {
	devices map[string]shown
	states  map[portKey]string
	unused  map[portKey]bool          // ports of expected_down
	stuck   map[measure.Key]time.Time // commands, and when the first one of those that are stuck began
	unread  map[measure.Key]unread    // applications that do not read their errors
	hangs   map[measure.Key]hanging
	tracer  traced
	pairs   map[pairKey]said // with other hosts
	fabrics map[portKey]portVerdict
}

type portKey struct {
	device string
	port   int
}

// shown is the state of a device in its last record.
type shown struct {
	open   bool
	reason status.Reason
}

// NewChanges returns Changes to which everything is new.
func NewChanges() *Changes {
	return &Changes{
		devices: make(map[string]shown), states: make(map[portKey]string), unused: make(map[portKey]bool), stuck: make(map[measure.Key]time.Time),
		unread: make(map[measure.Key]unread), hangs: make(map[measure.Key]hanging),
		pairs: make(map[pairKey]said), fabrics: make(map[portKey]portVerdict),
	}
}

// Of returns the record of an event, a change of a port, of its GID table or of an
// attribute, a command that is stuck or was, a port that became known, a device, an event of
// an application, errors that it does not read, a thread of it that hangs, the tracer, or what is
// said of a pair with another host or of the port that probes it. It reports false if the point has nothing new. A change that the event in last has caused
// becomes part of last, which may be nil. Of does not keep the point.
func (c *Changes) Of(p measure.Point, last *Record) (Record, bool) {
	switch p := p.(type) {
	case *measure.Event:
		return c.event(p)
	case *measure.Change:
		return c.change(p, last)
	case *measure.GIDChange:
		return Record{Time: p.At, Kind: KindGID, Device: p.Device, Port: p.Port, GID: newGID(p)}, true
	case *measure.AttrChange:
		return Record{Time: p.At, Kind: KindAttr, Device: p.Device, Port: p.Port, Attr: &Attr{p.Attr, p.From, p.To}}, true
	case *measure.Command:
		return c.command(p)
	case *measure.Evidence:
		return Record{Time: p.At, Kind: KindEvidence, Device: p.Device, Port: p.Port, Evidence: newEvidence(p)}, true
	case *measure.Port:
		return c.port(p)
	case *measure.Device:
		return c.device(p)
	case *measure.FabricPeer, *measure.FabricPort:
		return c.ofFabric(p)
	}
	return c.ofApp(p)
}

func (c *Changes) ofApp(p measure.Point) (Record, bool) {
	switch p := p.(type) {
	case *measure.AppEvent:
		return appEvent(p), true
	case *measure.AppAsync:
		return c.appAsync(p)
	case *measure.AppHang:
		return c.appHang(p)
	case *measure.Tracer:
		return c.trace(p)
	}
	return Record{}, false
}

func (c *Changes) event(p *measure.Event) (Record, bool) {
	key := portKey{p.Device, p.Port}
	state := c.states[key]
	return Record{
		Time: p.At, Kind: KindEvent, Device: p.Device, Port: p.Port,
		Event: p.Type.String(), Count: p.Count, StateFrom: state, StateTo: state, Expected: c.portExpectation(key),
	}, true
}

func (c *Changes) change(p *measure.Change, last *Record) (Record, bool) {
	key := portKey{p.Device, p.Port}
	c.states[key] = p.To.String()
	if last != nil && last.merge(p) {
		return Record{}, false
	}
	r := Record{Time: p.At, Kind: KindState, Device: p.Device, Port: p.Port, Expected: c.portExpectation(key)}
	r.change(p)
	return r, true
}

func newGID(p *measure.GIDChange) *GID {
	g := &GID{
		GID: p.GID.String(), Type: p.GID.Type.String(), NetDev: p.GID.NetDev, Action: p.Action,
		AwayNS: p.AwayNS, OwnProbe: p.Probed,
	}
	if from := p.From; from >= 0 {
		g.From = &from
	}
	if to := p.To; to >= 0 {
		g.To = &to
	}
	return g
}

// command is news when a command is stuck, or is no longer.
func (c *Changes) command(p *measure.Command) (Record, bool) {
	began, stuck := c.stuck[p.Key()]
	if stuck == p.Stuck {
		return Record{}, false
	}
	command := &Command{Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, BusyNS: p.BusyNS, Calls: p.Calls, Errors: p.Errors}
	if p.Stuck {
		c.stuck[p.Key()] = p.At.Add(-time.Duration(p.BusyNS))
	} else {
		command.LastedNS = int64(p.At.Sub(began))
		delete(c.stuck, p.Key())
	}
	return Record{Time: p.At, Kind: KindCommand, Device: p.Device, Port: p.Port, Command: command}, true
}

// portExpectation returns the field Expected of a port's records.
func (c *Changes) portExpectation(key portKey) string {
	if c.unused[key] {
		return "down"
	}
	return ""
}

// port is news when it became known. After that only its changes are.
func (c *Changes) port(v *measure.Port) (Record, bool) {
	key := portKey{v.Device, v.Port}
	if v.Expected {
		c.unused[key] = true
	} else {
		delete(c.unused, key)
	}
	if _, seen := c.states[key]; seen || !v.HasState || !v.Known {
		return Record{}, false
	}
	c.states[key] = v.State.String()
	return Record{
		Time: v.At, Kind: KindPort, Device: v.Device, Port: v.Port, StateTo: v.State.String(), Expected: c.portExpectation(key),
		Link: &Link{v.Attr.RateGbps, v.Attr.Width, v.Attr.LinkLayer.String(), v.Attr.NetDev},
	}, true
}

func (c *Changes) device(v *measure.Device) (Record, bool) {
	last := c.devices[v.Device]
	c.devices[v.Device] = shown{v.Open, v.Reason}
	r := Record{Time: v.At, Kind: KindDevice, Device: v.Device, Reason: v.Reason}
	switch {
	case v.Open && !last.open:
		r.Opened = &Opened{v.Attr.Driver, v.Attr.Firmware, v.Attr.Ports, v.Attr.EventsSupported}
	case v.Reason == status.ReasonOK || v.Reason == status.ReasonStarting || v.Reason == last.reason:
		return Record{}, false
	}
	return r, true
}
