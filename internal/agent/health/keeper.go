package health

import (
	"slices"
	"time"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Keeper makes a Status from the points of each interval. It evaluates the table of alerts and remembers past values.
// It is not safe for concurrent use.
type Keeper struct {
	version, host string
	source        Source

	judge *judge
	flaps map[portKey]flapHistory
	// lastSettled is when each port was last active, each device was last open, or either was last reported as a
	// problem, since the plugin started or the device was released. The zero portKey stands for the host, which is settled
	// if all devices that are counted are there.
	lastSettled map[portKey]time.Time

	// The following fields are valid during Observe.
	now        time.Time
	status     *Status
	devices    map[string]*measure.Device
	management map[portKey]bool                  // ports with the role management, whose problems are warnings
	blackholes map[portKey][]*measure.FabricPeer // pairs with a path on which the network passes no packet
}

// portKey identifies a port of a device, or the device itself if the port is 0.
type portKey struct {
	device string
	port   int
}

// flapHistory counts the flaps of a port.
type flapHistory struct {
	total    uint64
	last     time.Time // when the port became active again after the last flap
	lastSeen time.Time
}

// NewKeeper returns a Keeper. version is the plugin's, and host is the name of its host.
func NewKeeper(version, host string) *Keeper {
	return &Keeper{
		version: version, host: host, source: SourcePlugin, judge: newJudge(false), flaps: map[portKey]flapHistory{}, lastSettled: map[portKey]time.Time{},
	}
}

// JudgeOnce returns the status of a host from a single set of points, without knowledge of the past. A device that is
// missing or not watched is a problem at once.
func JudgeOnce(version, host string, points []measure.Point, now time.Time) *Status {
	k := NewKeeper(version, host)
	k.source, k.judge.instant = SourceLook, true
	return k.Observe(points, now)
}

// IsState reports whether the point has a state whose changes are emitted at once, so that the last one is true until the next. A
// FabricPeer does not count, since it is judged together with the sums in FabricPort, which its changes do not renew.
func IsState(p measure.Point) bool {
	switch p.(type) {
	case *measure.Device, *measure.Port, *measure.Command, *measure.FabricPort:
		return true
	}
	return false
}

// Observe returns the status at the end of an interval with the given points. It does not change the points.
func (k *Keeper) Observe(points []measure.Point, now time.Time) *Status {
	k.judge.sampled = now
	return k.ObserveBetween(points, now)
}

// ObserveBetween returns the status between two intervals, with the points of the last interval and newer ones of states (IsState). What
// the other points say is known to have lasted until the last interval only.
func (k *Keeper) ObserveBetween(points []measure.Point, now time.Time) *Status {
	k.now, k.judge.now = now, now
	k.devices, k.management, k.blackholes = map[string]*measure.Device{}, map[portKey]bool{}, map[portKey][]*measure.FabricPeer{}
	k.status = &Status{
		Schema: Schema, Version: k.version, Host: k.host, Time: now.Round(0), Source: k.source,
		Devices: []Device{}, Problems: []Problem{},
	}
	// The order matters, whatever the order of the points: devices before their ports and probes, pairs before the
	// ports that sum them up, and ports before their problems, whose severity depends on the role.
	forEach(points, k.addDevice)
	forEach(points, k.addPort)
	forEach(points, k.addProbe)
	forEach(points, k.addCommand)
	forEach(points, k.collectBlackhole)
	forEach(points, k.addFabricPort)
	forEach(points, k.addCollector)
	for _, p := range points {
		k.reportFindings(p.Key(), k.judge.judgePoint(p, k.isUnread(p)))
	}
	k.judge.endInterval()
	k.forgetOld()
	sortProblems(k.status.Problems)
	return k.status
}

// forEach calls take for each point of type P, in order.
func forEach[P measure.Point](points []measure.Point, take func(P)) {
	for p := range measure.OfType[P](points) {
		take(p)
	}
}

// isUnread reports whether values are missing from the point only because the device cannot be read at present: its worker is being
// replaced, or a query failed. Of a device that is gone, released or in another network namespace nothing is missing.
func (k *Keeper) isUnread(p measure.Point) bool {
	d := k.devices[p.Key().Device]
	if d == nil || !d.Present || d.Intended() {
		return false
	}
	port, ok := p.(*measure.Port)
	return !d.Open || ok && !port.Known
}

// knownFor is how long the state of a device or port counts as known after its last answer. It is longer than worker-down has to last
// before it is a problem.
const knownFor = 3 * time.Minute

// isSettled reports whether the health of the device or port is known.
func (k *Keeper) isSettled(at portKey) bool {
	last, ok := k.lastSettled[at]
	return ok && k.now.Sub(last) < knownFor
}

// markSettled records that a problem of the device or port is known. worker-down does not count if the device may be closed to every
// program: then the problem may be the device itself.
func (k *Keeper) markSettled(at portKey, f *finding) {
	if d := k.devices[at.device]; f.alert.ID == "worker-down" && d != nil && cannotBeOpened(d.Reason) {
		return
	}
	k.lastSettled[at] = k.now
}

// cannotBeOpened reports whether a device that the plugin could not open for this reason may be closed to all other programs too.
func cannotBeOpened(r status.Reason) bool {
	return r == status.ReasonRecovering || r == status.ReasonStuck
}

// forgetSettled makes the Keeper judge a device and its ports as after a start.
func (k *Keeper) forgetSettled(device string) {
	for at := range k.lastSettled {
		if at.device == device {
			delete(k.lastSettled, at)
		}
	}
}

// reportFindings adds the findings about a series to the problems. A critical finding that has not lasted long enough
// is pending unless the device or port is settled.
func (k *Keeper) reportFindings(of measure.Key, found []finding) {
	at := portKey{of.Device, of.Port}
	for _, f := range found {
		severity := f.alert.Severity
		if k.management[at] {
			severity = alerts.Warning
		}
		switch {
		case f.lasted:
			k.status.Problems = append(k.status.Problems, Problem{
				ID: f.alert.ID, Severity: severity, Device: of.Device, Port: of.Port, Of: f.subject, Since: f.since, Text: f.text,
			})
			k.markSettled(at, &f)
		case severity == alerts.Critical && !k.isSettled(at):
			k.addPending(at, f.text)
		}
	}
}

func (k *Keeper) addDevice(p *measure.Device) {
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
	k.devices[p.Device] = p
	at := portKey{device: p.Device}
	switch {
	case p.Open:
		k.lastSettled[at] = k.now
	case p.Reason == status.ReasonReleased:
		k.forgetSettled(p.Device)
		k.addPending(at, "the device is released")
	case !p.Present || p.Intended():
	case cannotBeOpened(p.Reason):
		k.forgetSettled(p.Device)
		k.addPending(at, "the device cannot be opened")
	case !k.isSettled(at):
		k.addPending(at, "the device is not open")
	}
}

func (k *Keeper) addPending(at portKey, text string) {
	k.status.Pending = append(k.status.Pending, Pending{Device: at.device, Port: at.port, Text: text})
}

func (k *Keeper) addPort(p *measure.Port) {
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
		k.lastSettled[at] = k.now
	}
	if known {
		expected := p.ExpectedUp
		v.ExpectedUp, v.ExpectedReason = &expected, p.ExpectedReason
	}
	if p.Known {
		k.setLink(p, &v)
	}
	v.LastFlap = k.lastFlap(p, up).Round(0)
	d := k.findDevice(p.Device)
	if d == nil {
		return
	}
	d.Ports = append(d.Ports, v)
	if d.Open && !p.Known && !p.Restricted && !p.Expected && !k.management[at] && !k.isSettled(at) {
		k.addPending(at, "the port does not answer queries")
	}
}

func (k *Keeper) addCollector(p *measure.Collector) {
	k.status.FunctionsSkipped, k.status.MemorySince = p.FunctionsSkipped, p.MemorySince.Round(0)
	if p.Counted && p.ExpectedMissing == 0 {
		k.lastSettled[portKey{}] = k.now
	}
}

// lastFlap returns when the port became active again after its last flap since the plugin started, or zero if there was
// no flap.
func (k *Keeper) lastFlap(p *measure.Port, up bool) time.Time {
	at := portKey{p.Device, p.Port}
	f, known := k.flaps[at]
	if known && p.Flaps > f.total {
		f.last = k.now
		if up && p.HasStateAge {
			f.last = p.At.Add(-time.Duration(p.StateAgeNS))
		}
	}
	f.total, f.lastSeen = p.Flaps, k.now
	k.flaps[at] = f
	return f.last
}

// setLink sets the attributes that the port reports.
func (k *Keeper) setLink(p *measure.Port, v *Port) {
	if p.Attr.Phys != 0 {
		v.PhysState = p.Attr.Phys.String()
	}
	v.LinkLayer, v.NetDev, v.RateGbps, v.Width = p.Attr.LinkLayer.String(), p.Attr.NetDev, p.Attr.RateGbps, p.Attr.Width
}

func (k *Keeper) addProbe(p *measure.Probe) {
	v := Probe{
		Port: p.Port, Vector: p.Vector, Method: p.Method.String(), WakeP99NS: p.WakeP.P99,
		LostEvents: p.Counts.LostEvents, LostCompletions: p.Counts.LostCompletions, Errors: p.Counts.Errors,
	}
	if p.HasOK {
		v.OK = &p.OK
	}
	if d := k.findDevice(p.Device); d != nil {
		d.Probes = append(d.Probes, v)
	}
}

func (k *Keeper) addCommand(p *measure.Command) {
	v := Command{Port: p.Port, Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, Errors: p.Errors, BusyNS: p.BusyNS, TookP99NS: p.TookP.P99}
	if d := k.findDevice(p.Device); d != nil {
		d.Commands = append(d.Commands, v)
	}
}

// findDevice returns a device of the current status, or nil if it has none of that name.
func (k *Keeper) findDevice(device string) *Device {
	i := slices.IndexFunc(k.status.Devices, func(d Device) bool { return d.Device == device })
	if i < 0 {
		return nil
	}
	return &k.status.Devices[i]
}

// forgetOld drops flaps and settled times that are older than a day.
func (k *Keeper) forgetOld() {
	for at, f := range k.flaps {
		if k.now.Sub(f.lastSeen) > 24*time.Hour {
			delete(k.flaps, at)
		}
	}
	for at, seen := range k.lastSettled {
		if k.now.Sub(seen) > 24*time.Hour {
			delete(k.lastSettled, at)
		}
	}
}
