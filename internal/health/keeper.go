package health

import (
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/measure"
	"rdma_events/internal/status"
)

// Keeper makes the Status of each interval. It remembers, of each rule and what the rule is about, since when a state
// lasts and when a counter grew. It is not safe for concurrent use.
type Keeper struct {
	version, host string
	source        Source

	conditions map[ruled]*condition
	growths    map[ruled]*growth
	active     map[subject]time.Time // when a port was active last
	attached   time.Time             // when the tracer was attached last

	// Of the interval that is judged now.
	now    time.Time
	status *Status
}

// ruled is a rule and what it is about.
type ruled struct {
	rule *rule
	subject
}

// NewKeeper returns a Keeper for the plugin of a version on a host.
func NewKeeper(version, host string) *Keeper {
	return &Keeper{
		version: version, host: host, source: SourcePlugin,
		conditions: make(map[ruled]*condition), growths: make(map[ruled]*growth), active: make(map[subject]time.Time),
	}
}

// Look returns the status of a host that was looked at once: a device that is missing or not watched is a problem at
// once, and nothing is known of the past.
func Look(version, host string, points []measure.Point, now time.Time) *Status {
	k := NewKeeper(version, host)
	k.source = SourceLook
	return k.Observe(points, now)
}

// Observe returns the status after an interval. points are those of the interval, which Observe only reads.
func (k *Keeper) Observe(points []measure.Point, now time.Time) *Status {
	k.now = now
	k.status = &Status{
		Schema: Schema, Version: k.version, Host: k.host, Time: now.Round(0), Source: k.source,
		Devices: []Device{}, Problems: []Problem{},
	}
	for _, c := range k.conditions {
		c.seen = false
	}
	silent := map[subject][]*measure.FabricPeer{}
	for _, p := range points { // a device comes before what it has, whatever the order of the points, and pairs before their port
		switch p := p.(type) {
		case *measure.Device:
			k.device(p)
		case *measure.FabricPeer:
			if isSilent(p) {
				of := subject{device: p.Device, port: p.Port}
				silent[of] = append(silent[of], p)
			}
		}
	}
	for _, p := range points {
		switch p := p.(type) {
		case *measure.Port:
			k.port(p)
		case *measure.Probe:
			k.probe(p)
		case *measure.Async:
			k.async(p)
		case *measure.Command:
			k.command(p)
		case *measure.AppAsync:
			k.app(p)
		case *measure.AppHang:
			k.hang(p)
		case *measure.Tracer:
			k.tracer(p)
		case *measure.FabricPort:
			k.fabricPort(p, silent[subject{device: p.Device, port: p.Port}])
		case *measure.Collector:
			k.status.FunctionsSkipped = p.FunctionsSkipped
			k.grows(&pluginLate, subject{}, p.Queue.Skipped, "%d intervals were skipped, because Telegraf did not read")
			if p.Recorder != nil {
				k.grows(&recorderFailing, subject{}, p.Recorder.Errors+p.Recorder.Lost, "the recorder cannot write, %d failed writes and lost records in all")
			}
		}
	}
	k.forget()
	sortProblems(k.status.Problems)
	return k.status
}

func (k *Keeper) device(p *measure.Device) {
	d := Device{
		Device: p.Device, Present: p.Present, Open: p.Open, WorkerState: string(p.Worker.State), Reason: string(p.Reason),
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
	of := subject{device: p.Device}
	switch {
	case p.Missing():
		k.lasts(&deviceMissing, of, time.Time{}, "the device is missing")
	case p.Worker.State == status.StateBackingOff || p.Worker.State == status.StateStuck:
		k.lasts(&workerDown, of, time.Time{}, string(p.Reason))
	}
	k.grows(&deviceFatal, of, p.Fatals, "device_fatal was raised, %d in all")
	k.grows(&workerRestarts, of, p.Worker.Crashes, "the worker crashed, %d in all")
}

func (k *Keeper) port(p *measure.Port) {
	v := Port{Port: p.Port, RateBestGbps: p.RateBestGbps, Flaps: p.Flaps, ExpectedDown: p.Expected}
	if p.HasState {
		v.State = p.State.String()
	}
	if p.HasStateAge {
		v.Since = p.At.Add(-time.Duration(p.StateAgeNS))
	}
	of := subject{device: p.Device, port: p.Port}
	up, judged := p.Up()
	if up {
		k.active[of] = k.now
	}
	if p.Known {
		k.link(p, &v)
	}
	flaps := k.grows(&portFlapping, of, p.Flaps, "%d flaps in all")
	if n := len(flaps.times); n > 0 && flaps.times[n-1].Equal(k.now) {
		flaps.last = k.now
		if up && p.HasStateAge {
			flaps.last = v.Since
		}
	}
	v.LastFlap = flaps.last.Round(0)
	if d := k.of(p.Device); d != nil {
		d.Ports = append(d.Ports, v)
	}
	was, known := k.active[of]
	if judged && !up && !p.Expected && known && k.now.Sub(was) <= day {
		k.lasts(&portDown, of, v.Since, "the port is "+v.State)
	}
	if up && p.Attr.RateGbps > 0 && p.Attr.RateGbps < p.RateBestGbps {
		k.lasts(&linkSlow, of, time.Time{}, fmt.Sprintf("%g Gbit/s, and it had %g", p.Attr.RateGbps, p.RateBestGbps))
	}
	k.grows(&linkDisagrees, of, p.MissedTransitions, "the driver counted drops that no event reported, %d in all")
	k.grows(&gidMoved, of, p.GIDMoves, "GIDs moved to another index, %d in all")
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
	of := subject{p.Device, p.Port, fmt.Sprintf("vector %d, %s", p.Vector, v.Method)}
	k.grows(&probeErrors, of, v.Errors, of.of+": %d rounds in all failed")
	k.grows(&lostEvents, of, v.LostEvents, of.of+": %d completion events in all never came")
	k.grows(&lostCompletions, of, v.LostCompletions, of.of+": %d work requests in all never completed")
}

func (k *Keeper) async(p *measure.Async) {
	of := subject{device: p.Device, port: p.Port}
	if p.Unacked > 0 {
		k.lasts(&unackedEvents, of, time.Time{}, fmt.Sprintf("%d events are not acknowledged", p.Unacked))
	}
	k.grows(&releasedEvents, of, p.Released, "%d events in all were freed by their worker's death")
}

// slowCommand is the p99 above which commands are slow.
const slowCommand = time.Second

func (k *Keeper) command(p *measure.Command) {
	v := Command{Port: p.Port, Call: p.Call.String(), Stuck: p.Stuck, Status: p.Status, Errors: p.Errors, BusyNS: p.BusyNS, TookP99NS: p.TookP.P99}
	if d := k.of(p.Device); d != nil {
		d.Commands = append(d.Commands, v)
	}
	of := subject{p.Device, p.Port, v.Call}
	switch {
	case p.Stuck:
		k.lasts(&commandStuck, of, time.Time{}, "the firmware does not answer "+v.Call)
	case p.TookP.P99 > int64(slowCommand):
		k.lasts(&commandSlow, of, time.Time{}, fmt.Sprintf("the firmware takes %s for %s (p99)", latency(p.TookP.P99), v.Call))
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

// lasts adds a problem if a state, which is there now, has lasted long enough. since is when it began, if that is
// known better than by the intervals.
func (k *Keeper) lasts(r *rule, of subject, since time.Time, text string) {
	c := k.conditions[ruled{r, of}]
	if c == nil {
		c = &condition{began: k.now}
		k.conditions[ruled{r, of}] = c
	}
	c.seen = true
	if k.source == SourcePlugin && k.now.Sub(c.began) < r.hold {
		return
	}
	if since.IsZero() {
		since = c.began
	}
	k.add(r, of, since, text)
}

// grows adds a problem if a counter has grown often enough, with text and in it the counter.
func (k *Keeper) grows(r *rule, of subject, total uint64, text string) *growth {
	g := k.growths[ruled{r, of}]
	if g == nil {
		g = new(growth)
		k.growths[ruled{r, of}] = g
	}
	g.add(r, total, k.now)
	since, ok := g.since(r, k.now)
	switch {
	case ok && r.hold > 0:
		k.lasts(r, of, since, fmt.Sprintf(text, total))
	case ok:
		k.add(r, of, since, fmt.Sprintf(text, total))
	}
	return g
}

func (k *Keeper) add(r *rule, of subject, since time.Time, text string) {
	p := Problem{ID: r.id, Severity: r.severity, Device: of.device, Port: of.port, Since: since.Round(0), Text: text}
	if r.named {
		p.Of = of.of
	}
	k.status.Problems = append(k.status.Problems, p)
}

// forget drops states that are over, and counters and ports that have been gone for longer than a rule looks back.
func (k *Keeper) forget() {
	for at, c := range k.conditions {
		if !c.seen {
			delete(k.conditions, at)
		}
	}
	for at, g := range k.growths {
		if k.now.Sub(g.seen) > at.rule.window {
			delete(k.growths, at)
		}
	}
	for at, when := range k.active {
		if k.now.Sub(when) > day {
			delete(k.active, at)
		}
	}
}
