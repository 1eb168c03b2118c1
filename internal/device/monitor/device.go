package monitor

import (
	"log/slog"
	"slices"
	"sync"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/portstate"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// maxPort is the greatest port number: the verbs have it in a byte.
const maxPort = 255

// maxVector is more than a device has completion vectors.
const maxVector = 1 << 16

// Device holds all state of one device name. It outlives workers and the device itself,
// so that its counters continue when either comes back. A Supervisor calls its exported
// methods, see worker.Handler; none blocks. Device calls Emit with mu held, which keeps
// the points in order.
type Device struct {
	name     string
	expected bool // in Config.Expect
	counted  bool // by one of Config.Groups
	// remembered: Config.Memory had the device at the start, as it is in found. memorable: Config.Memory is to get to know it.
	remembered, memorable bool
	returned              bool // it has been in another network namespace
	cfg                   *Config
	clock                 *clock
	delivery              *delivery
	log                   *slog.Logger

	mu sync.Mutex

	// Reported by discovery.
	found       verbs.Found
	seen        bool
	listed      bool // usable in the last set
	present     bool
	renamed     bool
	appearances int   // grows each time the device appears
	goneAt      int64 // CLOCK_MONOTONIC ns
	job         *job
	released    bool  // see Config.Released
	unclosed    error // why a Supervisor could not end its worker; nil: all could, or the worker has ended since (heldBy)
	// unconfirmed is set while only the worker has reported the present removal, and uncounted if
	// removals leaves that one out. disproved is set once a worker has opened the device again that
	// discovery had never missed: then a worker's word counts no removal until it is confirmed.
	unconfirmed, uncounted, disproved bool
	netns                             netns
	function                          pciFunction
	fatals                            fatals
	link                              pciLink

	// Reported by the worker and its Supervisor.
	led              *ledger.Ledger // nil: no worker runs
	collectRings     func()         // see worker.Handler; nil: no worker runs
	ledgerAppearance int            // the appearance that the worker belongs to
	snap             ledger.Contents
	watching         bool  // the worker has the device open
	openSince        int64 // CLOCK_MONOTONIC ns, if open
	open             bool  // watching, and the device is present
	attr             verbs.DeviceAttr
	firmware         string        // that was known last
	status           status.Status // the last one that the Supervisor reported
	restarts         uint64        // of supervisors before this one
	crashes          uint64        // of supervisors before this one
	reason           status.Reason

	opens    uint64
	removals removals
	own      series
	ports    []*port  // by number
	probes   []*probe // by ProbeKey
	commands []*command

	// For evidence, CLOCK_MONOTONIC ns; 0: never.
	fatalAt, removedAt     int64
	held                   held      // the last time in which the device did not answer
	stuckSince, stuckUntil int64     // the last time in which a command was stuck; stuckUntil 0: one is
	ethtoolLate            bool      // and that is logged
	listError              lastError // why the objects could not be listed
	removedStamp           stamp

	emitted   measure.Device // the visible part of the last point, without its time
	stamp     stamp
	attrStamp stamp
	finished  bool // the device was renamed, and its final points are emitted
}

func newDevice(name string, m *Monitor) *Device {
	return &Device{
		name: name, expected: slices.Contains(m.cfg.Expect, name), counted: isCounted(m.cfg.Groups, name),
		cfg: &m.cfg, clock: &m.clock, delivery: &m.delivery, log: m.cfg.Log.With("device", name),
		reason: status.ReasonNoDevice,
		own:    newSeries(0, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ),
	}
}

// appear handles a device that discovery found under this name, and reports whether a
// worker should try to open it now.
func (d *Device) appear(f verbs.Found, t *moment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.emitIfChanged(t)
	if f.Netns == verbs.NetnsOther {
		d.moveAway(f, t)
		return false
	}
	if d.expected && f.Node != "" {
		f.Unwatchable = "" // this container should have been given the node
	}
	// The device is still listed as it was when its worker saw the removal. So the removal
	// is under way, unless the kernel has reported since then that the device was added.
	leaving := d.seen && !d.present && !d.renamed && d.listed && f.Same(d.found) && f.Added <= d.found.Added
	gone := d.present && d.found.Usable() && (!f.Usable() || !f.Same(d.found))
	d.listed = f.Usable()
	d.settleRemoval(f, t)
	switch {
	case (gone || d.netns.other) && d.canMove() && !f.Usable():
		d.leaveNamespace(t)
	case gone:
		d.leave(d.removedReason(), t)
	case d.present:
		return d.update(f, t)
	case leaving:
		return false
	}
	if d.seen && !f.Usable() && !f.Pending && f.Unwatchable == "" {
		return false
	}
	d.enter(f, t)
	return d.settleNode(t)
}

// settleRemoval handles a report about a device whose removal is unconfirmed: it may confirm or refute the removal.
func (d *Device) settleRemoval(f verbs.Found, t *moment) {
	switch {
	case !d.unconfirmed, f.Usable() && f.Same(d.found) && f.Added <= d.found.Added:
	case d.cameBack(f):
		d.cancelRemoval(t)
	case !d.canMove() || f.Usable():
		d.confirm(t)
	}
}

// update handles a new report about a device that is present. It reports whether a worker
// should try to open it now: the device has got its node, or something about a device that
// could not be opened has changed, and no worker has it open yet.
func (d *Device) update(f verbs.Found, t *moment) bool {
	closed := d.reason == status.ReasonUnwatchable || !d.found.Usable() || d.found.NodeMissing
	changed := f != d.found
	d.found = f
	switch {
	case d.watching || !closed || !changed:
		return false
	case f.Usable() && f.Unwatchable == "":
		return true
	}
	return d.settleNode(t) && d.job == nil
}

// enter makes an absent device present. If discovery only missed the device for a time,
// its worker still has it open.
func (d *Device) enter(f verbs.Found, t *moment) {
	same := f.Same(d.found)
	d.disproved = d.disproved && same
	moved := d.netns.other || d.cameBack(f)
	if d.netns.other {
		d.netns.other = false
		d.excuseFatals()
	}
	d.enterFunction(f, same, t)
	if moved { // it is back from another network namespace
		d.returned = true // for ports that are not known yet
		for _, p := range d.ports {
			p.returned = true
		}
	}
	d.found, d.seen, d.renamed, d.finished = f, true, false, false
	d.link = pciLink{}
	d.present, d.reason = true, status.ReasonStarting
	d.unconfirmed, d.uncounted = false, false // a device that can move may be here, and without its node, during a move
	d.appearances++
	if same && d.watching && !d.released && !moved {
		d.ledgerAppearance = d.appearances
		d.follow()
		return
	}
	// What befell the device before it went explains nothing of the one that came.
	d.fatalAt, d.removedAt, d.stuckSince, d.stuckUntil = 0, 0, 0, 0
}

// vanish handles a device that discovery no longer finds under its name. now is the new
// name of a renamed device.
func (d *Device) vanish(now alias, t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.emitIfChanged(t)
	d.listed = false
	switch {
	case now.name != "" && d.seen:
		d.unconfirmed, d.netns.other = false, false // it was renamed
		d.leave(status.ReasonRenamed, t)
		d.rename(now)
		d.lookAtFunction()
		d.dismiss()
	case d.present && d.reason == status.ReasonUnwatchable && !d.expected:
		d.leave(status.ReasonUnwatchable, t) // nobody misses it
	case d.present && d.canMove(), d.netns.other:
		d.leaveNamespace(t)
	case d.present:
		d.leave(d.removedReason(), t)
	case d.mayBeMoving():
		d.confirmRemovalInTime(t)
	case d.unconfirmed:
		d.confirm(t)
	}
	d.giveUp()
}

// giveUp ends the supervision of a device that is gone, if its Supervisor would go on
// trying to open it. That is so when the worker ended for another reason than the
// removal. The caller holds d.mu.
func (d *Device) giveUp() {
	tries := d.status.State == status.StateBackingOff || d.status.Reason == status.ReasonUnwatchable
	if !d.present && !d.listed && !d.watching && tries {
		d.dismiss()
	}
}

// leave makes a present device absent that discovery reports as gone.
func (d *Device) leave(why status.Reason, t *moment) {
	if !d.present {
		return
	}
	d.depart(why, t)
	if why == d.removedReason() {
		d.countRemoval()
		d.explainRemoval(t)
	}
}

// leaveByWorker makes a present device absent that its worker reports as removed. The cause is
// certain only once discovery confirms the removal (confirm).
func (d *Device) leaveByWorker(t *moment) {
	d.depart(d.removedReason(), t)
	d.unconfirmed, d.uncounted = true, d.disproved || d.canMove()
	if !d.uncounted {
		d.countRemoval()
	}
}

// confirm handles that discovery confirms a removal that the worker has reported.
func (d *Device) confirm(t *moment) {
	if d.uncounted {
		d.countRemoval()
	}
	d.unconfirmed, d.uncounted, d.disproved = false, false, false
	d.explainRemoval(t)
}

// disprove handles that a worker has opened the device again while its removal was unconfirmed.
func (d *Device) disprove(t *moment) {
	if !d.unconfirmed {
		return
	}
	d.unconfirmed, d.uncounted, d.disproved = false, false, true
	d.removals.waiting = false
	d.judgeAll(t)
	d.explainDeparture("", "all: the worker lost the device, which the kernel has not removed", t)
}

// removedReason returns the reason of the device when it is removed. A soft device is deleted on purpose, unless the configuration
// expects it. The caller holds d.mu.
func (d *Device) removedReason() status.Reason {
	if d.found.Soft && !d.expected && !d.counted {
		return status.ReasonDeleted
	}
	return status.ReasonRemoved
}

// depart makes a present device absent.
func (d *Device) depart(why status.Reason, t *moment) {
	d.present, d.reason, d.goneAt = false, why, t.mono
	d.shut(t)
}

// shut handles a device that is not open from now on, without a fault of its worker. What the worker reports until it has
// closed the device is counted, and describes nothing.
func (d *Device) shut(t *moment) {
	d.open = false
	for _, p := range d.ports {
		p.answered = false
		if c, ok := p.machine.Removed(t.mono); ok {
			d.emitChange(p, &c, t)
		}
	}
	d.endProbes()
	d.endCommands(t)
	d.publish(Update{Gone: true}, t)
}

// endProbes marks every probe as one without a result: the result of the last round,
// perhaps hours old, does not describe the device now.
func (d *Device) endProbes() {
	for _, p := range d.probes {
		p.ended = false
	}
}

// counter returns the counter of an event type with its series and, for a port event,
// its port. All are nil if the port is not to be counted.
func (d *Device) counter(t verbs.EventType, number int) (*counter, *series, *port) {
	if t.Scope() != verbs.ScopePort || number == 0 {
		return d.own.counter(t), &d.own, nil
	}
	p := d.port(number)
	if p == nil {
		return nil, nil, nil
	}
	return p.counter(t), &p.series, p
}

// port returns a port, and creates it if necessary. It returns nil for a port that is
// not to be counted.
func (d *Device) port(number int) *port {
	i, ok := slices.BinarySearchFunc(d.ports, number, func(p *port, n int) int { return p.port - n })
	if ok {
		return d.ports[i]
	}
	if number < 1 || number > maxPort || !d.cfg.Ports(d.name, number) {
		return nil
	}
	p := newPort(number, d.cfg.ExpectedDown(d.name, number))
	p.returned = d.returned
	p.role.name = d.cfg.Role(d.name, number)
	p.role.decided = p.role.name != ""
	d.ports = slices.Insert(d.ports, i, p)
	return p
}

// probe returns a probe, and creates it if necessary. It returns nil when there are
// already ledger.ProbeSlots probes.
func (d *Device) probe(k verbs.ProbeKey) *probe {
	i, ok := slices.BinarySearchFunc(d.probes, k, func(p *probe, k verbs.ProbeKey) int { return p.Compare(k) })
	if ok {
		return d.probes[i]
	}
	if len(d.probes) >= ledger.ProbeSlots {
		return nil
	}
	p := newProbe(k, d.cfg)
	d.probes = slices.Insert(d.probes, i, p)
	return p
}

func (d *Device) emitChange(p *port, c *portstate.Change, t *moment) {
	p.facts.changes = remember(p.facts.changes, *c)
	d.cfg.Emit(p.change(d.name, c, t))
	d.emitPort(p, c.At, t)
}

func (d *Device) emitPort(p *port, mono int64, t *moment) {
	p.emitted, p.legs = p.attr, p.legsNow(d.cfg.Legs)
	v := d.observePort(p, t, t.wall(mono))
	d.publish(Update{Port: v}, t)
	if !p.role.awaited() {
		d.cfg.Emit(v)
	}
}

// emitIfChanged emits the device if a visible part of it has changed.
func (d *Device) emitIfChanged(t *moment) {
	v := d.view(t)
	if visible(v) == d.emitted || !d.seen {
		return
	}
	d.emitted = visible(v)
	point := v // only this copy is allocated
	point.At = d.stamp.next(t.wall(t.mono), t.epoch)
	d.cfg.Emit(&point)
}

// visible returns v without the values that no point contains.
func visible(v measure.Device) measure.Device {
	v.Worker.PID, v.Worker.Message, v.Worker.Reason = 0, "", ""
	v.OtherNetnsNS = 0 // it grows without anything having happened
	return v
}

func (d *Device) view(t *moment) measure.Device {
	d.countFatals(t)
	d.settleRemovalKind(t)
	v := measure.Device{
		Device: d.name, Present: d.present || d.netns.other, Open: d.open, Opens: d.opens,
		Removals: d.removals.all, UnplannedRemovals: d.removals.unplanned, FunctionRemovals: d.function.removals,
		Fatals: d.fatals.faults, Link: d.link.PCILink, Reason: d.reason, Worker: d.status, Attr: d.attr,
	}
	if d.mayBeMoving() {
		v.Present, v.Reason = true, status.ReasonStarting // for moveLimit at most, unless discovery still finds the device
	}
	if d.netns.other {
		v.InOtherNetns, v.OtherNetnsNS = true, max(0, t.boot-d.netns.since)
	}
	if d.present && d.found.NodeMissing {
		v.Reason = status.ReasonNodeMissing // also while a worker has had it open since before: other programs cannot
	}
	switch {
	case d.released && !d.renamed:
		v.Reason = status.ReasonReleased
		if d.job == nil {
			v.Worker.State = status.StateStopped
		}
	case d.netns.other && (d.job == nil || d.status.State == ""),
		d.job == nil && d.reason == status.ReasonUnwatchable:
		v.Worker.State = status.StateStopped
	case d.present && (d.job == nil || d.status.State == ""):
		v.Worker.State = status.StateStarting // its Supervisor has not reported anything yet
	}
	v.Worker.Restarts += d.restarts
	v.Worker.Crashes += d.crashes
	return v
}
