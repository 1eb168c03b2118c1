package timeline

import (
	"time"

	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// deviceChanges remembers the last known state of devices and their ports.
type deviceChanges struct {
	recorded     map[string]recordedDevice
	states       map[portKey]string
	expectedDown map[portKey]bool          // ports of the option expected_down
	stuckSince   map[measure.Key]time.Time // of stuck commands: when the first stuck call began
}

type portKey struct {
	device string
	port   int
}

// recordedDevice is the state of a device in its last record.
type recordedDevice struct {
	open   bool
	reason status.Reason
}

// RegisterDevices is the Part for devices and their ports.
func RegisterDevices(c *Changes) {
	d := &deviceChanges{map[string]recordedDevice{}, map[portKey]string{}, map[portKey]bool{}, map[measure.Key]time.Time{}}
	registerRecord(c, d.eventRecord)
	registerRecord(c, d.stateRecord)
	registerRecord(c, d.gidRecord)
	registerRecord(c, d.attrRecord)
	registerRecord(c, d.commandRecord)
	registerRecord(c, d.evidenceRecord)
	registerRecord(c, d.portRecord)
	registerRecord(c, d.deviceRecord)
}

// eventRecord returns the record of an asynchronous event, with the state of its port.
func (d *deviceChanges) eventRecord(p *measure.Event) (Record, bool) {
	key := portKey{p.Device, p.Port}
	state := d.states[key]
	return Record{
		Time: p.At, Kind: KindEvent, Device: p.Device, Port: p.Port,
		Event: p.Type.String(), Count: p.Count, StateFrom: state, StateTo: state, Expected: d.portExpectation(key),
	}, true
}

// stateRecord returns the record of a change of a port's state.
func (d *deviceChanges) stateRecord(p *measure.Change) (Record, bool) {
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

func (*deviceChanges) gidRecord(p *measure.GIDChange) (Record, bool) {
	return Record{Time: p.At, Kind: KindGID, Device: p.Device, Port: p.Port, GID: newGID(p)}, true
}

func (*deviceChanges) attrRecord(p *measure.AttrChange) (Record, bool) {
	return Record{Time: p.At, Kind: KindAttr, Device: p.Device, Port: p.Port, Attr: &Attr{p.Attr, p.From, p.To}}, true
}

func (*deviceChanges) evidenceRecord(p *measure.Evidence) (Record, bool) {
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

// commandRecord returns a record when a command becomes stuck, and when it is no longer stuck.
func (d *deviceChanges) commandRecord(p *measure.Command) (Record, bool) {
	began, stuck := d.stuckSince[p.Key()]
	if stuck == p.Stuck {
		return Record{}, false
	}
	command := &Command{Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, BusyNS: p.BusyNS, Calls: p.Calls, Errors: p.Errors}
	if p.Stuck {
		d.stuckSince[p.Key()] = p.At.Add(-time.Duration(p.BusyNS))
	} else {
		command.LastedNS = durationNS(began, p.At)
		delete(d.stuckSince, p.Key())
	}
	return Record{Time: p.At, Kind: KindCommand, Device: p.Device, Port: p.Port, Command: command}, true
}

// portExpectation returns the field Expected of a port's records.
func (d *deviceChanges) portExpectation(key portKey) string {
	if d.expectedDown[key] {
		return "down"
	}
	return ""
}

// portRecord returns a record when the state of a port becomes known for the first time. Later changes have records of their
// own.
func (d *deviceChanges) portRecord(v *measure.Port) (Record, bool) {
	key := portKey{v.Device, v.Port}
	if v.Expected {
		d.expectedDown[key] = true
	} else {
		delete(d.expectedDown, key)
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

// deviceRecord returns a record when a device is opened, and when the reason why it is not watched changes.
func (d *deviceChanges) deviceRecord(v *measure.Device) (Record, bool) {
	last := d.recorded[v.Device]
	d.recorded[v.Device] = recordedDevice{v.Open, v.Reason}
	r := Record{Time: v.At, Kind: KindDevice, Device: v.Device, Reason: v.Reason, Why: v.Worker.Message}
	switch {
	case v.Open && !last.open:
		r.Opened = &Opened{v.Attr.Driver, v.Attr.Firmware, v.Attr.Ports, v.Attr.EventsSupported}
	case v.Reason == status.ReasonOK || v.Reason == status.ReasonStarting || v.Reason == last.reason:
		return Record{}, false
	}
	return r, true
}
