package health

import (
	"slices"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// Keeper makes the Status of each interval, by the table of alerts and by what it remembers. It is not safe for concurrent use.
type Keeper struct {
	version, host string
	source        Source

	judge *judge
	flaps map[portKey]flaps
	// settled has the ports that were active and the devices that were open since the plugin started and, as the zero portKey, the host if
	// it had all devices that are counted, each with when that was seen last.
	settled map[portKey]time.Time

	// Of the interval that is judged now.
	now        time.Time
	status     *Status
	management map[portKey]bool                  // ports whose problems are warnings
	blackholes map[portKey][]*measure.FabricPeer // pairs of which the network passes nothing, at least on one path
}

// portKey is a port of a device, or the device if the port is 0.
type portKey struct {
	device string
	port   int
}

// flaps are those of a port.
type flaps struct {
	total uint64
	last  time.Time // when the port came back from the last one
	seen  time.Time
}

// NewKeeper returns a Keeper for the plugin of a version on a host.
func NewKeeper(version, host string) *Keeper {
	return &Keeper{
		version: version, host: host, source: SourcePlugin, judge: newJudge(false), flaps: map[portKey]flaps{}, settled: map[portKey]time.Time{},
	}
}

// Look returns the status of a host that was looked at once: a device that is missing or not watched is a problem at
// once, and nothing is known of the past.
func Look(version, host string, points []measure.Point, now time.Time) *Status {
	k := NewKeeper(version, host)
	k.source, k.judge.once = SourceLook, true
	return k.Observe(points, now)
}

// Observe returns the status after an interval. points are those of the interval, which Observe only reads.
func (k *Keeper) Observe(points []measure.Point, now time.Time) *Status {
	k.now, k.judge.now = now, now
	k.management, k.blackholes = map[portKey]bool{}, map[portKey][]*measure.FabricPeer{}
	k.status = &Status{
		Schema: Schema, Version: k.version, Host: k.host, Time: now.Round(0), Source: k.source,
		Devices: []Device{}, Problems: []Problem{},
	}
	// A device comes before what it has, a pair before its port, and a port before its problems, whatever the order of the points.
	each(points, k.device)
	each(points, k.port)
	each(points, k.probe)
	each(points, k.command)
	each(points, k.fabricPeer)
	each(points, k.fabricPort)
	each(points, k.collector)
	for _, p := range points {
		k.report(p.Key(), k.judge.point(p))
	}
	k.judge.end()
	k.forget()
	sortProblems(k.status.Problems)
	return k.status
}

// each calls take for the points of its type, in their order.
func each[P measure.Point](points []measure.Point, take func(P)) {
	for p := range measure.OfType[P](points) {
		take(p)
	}
}

// report makes problems of what was found about a series. What was so before the plugin started and has not lasted yet is pending.
func (k *Keeper) report(of measure.Key, found []finding) {
	at := portKey{of.Device, of.Port}
	for _, f := range found {
		severity := f.alert.Severity
		if k.management[at] {
			severity = alerts.Warning
		}
		switch {
		case f.held:
			k.status.Problems = append(k.status.Problems, Problem{
				ID: f.alert.ID, Severity: severity, Device: of.Device, Port: of.Port, Of: f.of, Since: f.since, Text: f.text,
			})
			k.settled[at] = k.now
		case severity == alerts.Critical && k.settled[at].IsZero():
			k.status.Pending = append(k.status.Pending, Pending{Device: of.Device, Port: of.Port, Text: f.text})
		}
	}
}

func (k *Keeper) device(p *measure.Device) {
	d := Device{
		Device: p.Device, Present: p.Present, Open: p.Open, WorkerState: p.Worker.State, Reason: p.Reason,
		Driver: p.Attr.Driver, Firmware: p.Attr.Firmware, BoardID: p.Attr.BoardID, PCIAddress: p.Attr.PCIAddress,
	}
	if p.Attr.Name != "" && p.Attr.NUMANode >= 0 {
		d.NUMANode = &p.Attr.NUMANode
	}
	if p.Link.Known() {
		d.PCILink = (*PCILink)(&p.Link)
	}
	if p.InOtherNetns {
		d.AwaySince = p.At.Add(-time.Duration(p.OtherNetnsNS)).Round(0)
	}
	k.status.Devices = append(k.status.Devices, d)
	at := portKey{device: p.Device}
	switch {
	case p.Open:
		k.settled[at] = k.now
	case p.Present && p.Opens == 0 && !p.Intended() && k.settled[at].IsZero():
		k.status.Pending = append(k.status.Pending, Pending{Device: p.Device, Text: "the device has not been opened yet"})
	}
}

func (k *Keeper) port(p *measure.Port) {
	v := Port{
		Port: p.Port, RateBestGbps: p.RateBestGbps, RateExpectedGbps: p.RateExpectedGbps, Role: p.Role, Flaps: p.Flaps, ExpectedDown: p.Expected,
	}
	if p.HasState {
		v.State = p.State.String()
	}
	if p.HasStateAge {
		v.Since = p.At.Add(-time.Duration(p.StateAgeNS))
	}
	at := portKey{p.Device, p.Port}
	k.management[at] = p.Role == verbs.RoleManagement
	up, known := p.Up()
	if up {
		k.settled[at] = k.now
	}
	if known {
		expected := p.ExpectedUp
		v.ExpectedUp, v.ExpectedReason = &expected, p.ExpectedReason
	}
	if p.Known {
		k.link(p, &v)
	}
	v.LastFlap = k.lastFlap(p, up).Round(0)
	if d := k.of(p.Device); d != nil {
		d.Ports = append(d.Ports, v)
	}
}

func (k *Keeper) collector(p *measure.Collector) {
	k.status.FunctionsSkipped, k.status.MemorySince = p.FunctionsSkipped, p.MemorySince.Round(0)
	if p.Counted && p.ExpectedMissing == 0 {
		k.settled[portKey{}] = k.now
	}
}

// lastFlap returns when the port came back from its last flap since the plugin started; zero: there was none.
func (k *Keeper) lastFlap(p *measure.Port, up bool) time.Time {
	at := portKey{p.Device, p.Port}
	f, known := k.flaps[at]
	if known && p.Flaps > f.total {
		f.last = k.now
		if up && p.HasStateAge {
			f.last = p.At.Add(-time.Duration(p.StateAgeNS))
		}
	}
	f.total, f.seen = p.Flaps, k.now
	k.flaps[at] = f
	return f.last
}

// link sets what the port itself says.
func (k *Keeper) link(p *measure.Port, v *Port) {
	if p.Attr.Phys != 0 {
		v.PhysState = p.Attr.Phys.String()
	}
	v.LinkLayer, v.NetDev, v.RateGbps, v.Width = p.Attr.LinkLayer.String(), p.Attr.NetDev, p.Attr.RateGbps, p.Attr.Width
}

func (k *Keeper) probe(p *measure.Probe) {
	v := Probe{
		Port: p.Port, Vector: p.Vector, Method: p.Method.String(), WakeP99NS: p.WakeP.P99,
		LostEvents: p.Counts.LostEvents, LostCompletions: p.Counts.LostCompletions, Errors: p.Counts.Errors,
	}
	if p.HasOK {
		v.OK = &p.OK
	}
	if d := k.of(p.Device); d != nil {
		d.Probes = append(d.Probes, v)
	}
}

func (k *Keeper) command(p *measure.Command) {
	v := Command{Port: p.Port, Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, Errors: p.Errors, BusyNS: p.BusyNS, TookP99NS: p.TookP.P99}
	if d := k.of(p.Device); d != nil {
		d.Commands = append(d.Commands, v)
	}
}

// of returns a device of the status that is made, nil if it is not there.
func (k *Keeper) of(device string) *Device {
	i := slices.IndexFunc(k.status.Devices, func(d Device) bool { return d.Device == device })
	if i < 0 {
		return nil
	}
	return &k.status.Devices[i]
}

// forget drops what has been gone for a day.
func (k *Keeper) forget() {
	for at, f := range k.flaps {
		if k.now.Sub(f.seen) > 24*time.Hour {
			delete(k.flaps, at)
		}
	}
	for at, seen := range k.settled {
		if k.now.Sub(seen) > 24*time.Hour {
			delete(k.settled, at)
		}
	}
}
