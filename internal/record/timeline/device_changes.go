package timeline

import (
	"time"

	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// devices remembers what is known of devices and their ports.
type devices struct {
	shown  map[string]shown
	states map[portKey]string
	unused map[portKey]bool          // ports of expected_down
	stuck  map[measure.Key]time.Time // commands, and when the first one of those that are stuck began
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

// OfDevices is the Part of devices and their ports.
func OfDevices(c *Changes) {
	d := &devices{map[string]shown{}, map[portKey]string{}, map[portKey]bool{}, map[measure.Key]time.Time{}}
	register(c, d.event)
	register(c, d.change)
	register(c, d.gidChange)
	register(c, d.attr)
	register(c, d.command)
	register(c, d.evidence)
	register(c, d.port)
	register(c, d.device)
}

func (d *devices) event(p *measure.Event) (Record, bool) {
	key := portKey{p.Device, p.Port}
	state := d.states[key]
	return Record{
		Time: p.At, Kind: KindEvent, Device: p.Device, Port: p.Port,
		Event: p.Type.String(), Count: p.Count, StateFrom: state, StateTo: state, Expected: d.portExpectation(key),
	}, true
}

func (d *devices) change(p *measure.Change) (Record, bool) {
	key := portKey{p.Device, p.Port}
	d.states[key] = p.To.String()
	r := Record{
		Time: p.At, Kind: KindState, Device: p.Device, Port: p.Port, Expected: d.portExpectation(key),
		StateFrom: p.From.String(), StateTo: p.To.String(), Witness: p.Witness,
	}
	if p.HasLasted {
		r.LastedNS = p.LastedNS
	}
	return r, true
}

func (*devices) gidChange(p *measure.GIDChange) (Record, bool) {
	return Record{Time: p.At, Kind: KindGID, Device: p.Device, Port: p.Port, GID: newGID(p)}, true
}

func (*devices) attr(p *measure.AttrChange) (Record, bool) {
	return Record{Time: p.At, Kind: KindAttr, Device: p.Device, Port: p.Port, Attr: &Attr{p.Attr, p.From, p.To}}, true
}

func (*devices) evidence(p *measure.Evidence) (Record, bool) {
	return Record{Time: p.At, Kind: KindEvidence, Device: p.Device, Port: p.Port, Evidence: newEvidence(p)}, true
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
func (d *devices) command(p *measure.Command) (Record, bool) {
	began, stuck := d.stuck[p.Key()]
	if stuck == p.Stuck {
		return Record{}, false
	}
	command := &Command{Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, BusyNS: p.BusyNS, Calls: p.Calls, Errors: p.Errors}
	if p.Stuck {
		d.stuck[p.Key()] = p.At.Add(-time.Duration(p.BusyNS))
	} else {
		command.LastedNS = int64(p.At.Sub(began))
		delete(d.stuck, p.Key())
	}
	return Record{Time: p.At, Kind: KindCommand, Device: p.Device, Port: p.Port, Command: command}, true
}

// portExpectation returns the field Expected of a port's records.
func (d *devices) portExpectation(key portKey) string {
	if d.unused[key] {
		return "down"
	}
	return ""
}

// port is news when it became known. After that only its changes are.
func (d *devices) port(v *measure.Port) (Record, bool) {
	key := portKey{v.Device, v.Port}
	if v.Expected {
		d.unused[key] = true
	} else {
		delete(d.unused, key)
	}
	if _, seen := d.states[key]; seen || !v.HasState || !v.Known {
		return Record{}, false
	}
	d.states[key] = v.State.String()
	return Record{
		Time: v.At, Kind: KindPort, Device: v.Device, Port: v.Port, StateTo: v.State.String(), Expected: d.portExpectation(key),
		Link: &Link{v.Attr.RateGbps, v.Attr.Width, v.Attr.LinkLayer.String(), v.Attr.NetDev},
	}, true
}

func (d *devices) device(v *measure.Device) (Record, bool) {
	last := d.shown[v.Device]
	d.shown[v.Device] = shown{v.Open, v.Reason}
	r := Record{Time: v.At, Kind: KindDevice, Device: v.Device, Reason: v.Reason, Why: v.Worker.Message}
	switch {
	case v.Open && !last.open:
		r.Opened = &Opened{v.Attr.Driver, v.Attr.Firmware, v.Attr.Ports, v.Attr.EventsSupported}
	case v.Reason == status.ReasonOK || v.Reason == status.ReasonStarting || v.Reason == last.reason:
		return Record{}, false
	}
	return r, true
}
