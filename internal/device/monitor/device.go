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

// maxPort is the greatest port number: the verbs API stores it in a byte.
const maxPort = 255

// maxVector is greater than the number of completion vectors of any device.
const maxVector = 1 << 16

// Device holds all state of one device name. It outlives workers and the device itself,
// so that its counters continue when either comes back. A Supervisor calls its exported
// methods, see worker.Handler; none blocks. Device calls Emit with mu held, which keeps
// the points in order.
type Device struct {
	name     string
	expected bool // in Config.Expect
	counted  bool // by one of Config.Groups
	// remembered is set if Config.Memory had the device at the start; found then has the remembered attributes.
	// memorable is set if Config.Memory is to remember the device.
	remembered, memorable bool
	returned              bool // the device has been in another network namespace and came back
	cfg                   *Config
	clock                 *clock
	delivery              *delivery
	log                   *slog.Logger

	mu sync.Mutex

	// Reported by discovery.
	found       verbs.Found
	seen        bool
	listed      bool // usable in the last report
	present     bool
	renamed     bool
	appearances int   // grows each time the device appears
	goneAt      int64 // CLOCK_MONOTONIC ns
	job         *job
	released    bool  // see Config.Released
	unclosed    error // the error of a Supervisor that could not end its worker; nil if none, or once that worker has ended (unclosedReason)
	// unconfirmed is set while only the worker has reported the removal; uncounted is set if removals does not
	// count it yet. refuted is set once a worker has reopened a device whose removal it had reported and
	// discovery had not: from then on a removal counts only after discovery has confirmed it.
	unconfirmed, uncounted, refuted bool
	netns                           netns
	function                        pciFunction
	fatals                          fatals
	bondJoinedAt                    int64 // when the network device of a port last joined a bond, CLOCK_MONOTONIC ns; 0: never
	link                            pciLink

	// Reported by the worker and its Supervisor.
	ledger           *ledger.Ledger // nil: no worker runs
	collectRings     func()         // see worker.Handler; nil: no worker runs
	ledgerAppearance int            // the appearance that the worker belongs to
	ledgerCounts     ledger.Contents
	watching         bool  // the worker has the device open
	openSince        int64 // CLOCK_MONOTONIC ns, if open
	open             bool  // watching, and the device is present
	attr             verbs.DeviceAttr
	firmware         string        // the last known version
	status           status.Status // the last status that the Supervisor reported
	restarts         uint64        // of earlier Supervisors
	crashes          uint64        // of earlier Supervisors
	reason           status.Reason

	opens        uint64
	removals     removals
	deviceSeries series
	ports        []*port  // by number
	probes       []*probe // by ProbeKey
	commands     []*command

	// For evidence, CLOCK_MONOTONIC ns; 0: never.
	fatalAt, removedAt     int64
	stall                  stall     // the last period in which the device did not answer
	stuckSince, stuckUntil int64     // the last period in which a command was stuck; stuckUntil is 0 while a command is stuck
	ethtoolLate            bool      // ethtool does not answer, and the log says so
	listError              lastError // why the objects could not be listed
	removedStamp           stamp

	emitted   measure.Device // the last point, without its time and hidden values (withoutHidden)
	stamp     stamp
	attrStamp stamp
	finished  bool // the device was renamed, and its final points have been emitted
}

func newDevice(name string, m *Monitor) *Device {
	return &Device{
		name: name, expected: slices.Contains(m.cfg.Expect, name), counted: isCounted(m.cfg.Groups, name),
		cfg: &m.cfg, clock: &m.clock, delivery: &m.delivery, log: m.cfg.Log.With("device", name),
		reason:       status.ReasonNoDevice,
		deviceSeries: newSeries(0, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ),
	}
}

// handleFound handles a report of discovery that contains the device, and reports whether a
// worker should try to open it now.
func (d *Device) handleFound(f verbs.Found, t *moment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.emitIfChanged(t)
	if f.Netns == verbs.NetnsOther {
		d.markInOtherNetns(f, t)
		return false
	}
	if d.expected && f.Node != "" {
		f.Unwatchable = "" // this container should have been given the node
	}
	// Discovery lists the same device as when the worker reported its removal. So the removal
	// is under way, unless the kernel has announced the device again since then.
	leaving := d.seen && !d.present && !d.renamed && d.listed && f.Same(d.found) && f.Added <= d.found.Added
	gone := d.present && d.found.Usable() && (!f.Usable() || !f.Same(d.found))
	d.listed = f.Usable()
	d.checkUnconfirmedRemoval(f, t)
	switch {
	case (gone || d.netns.other) && d.canMove() && !f.Usable():
		d.markLeftNetns(t)
	case gone:
		d.removeByDiscovery(d.removedReason(), t)
	case d.present:
		return d.updateFound(f, t)
	case leaving:
		return false
	}
	if d.seen && !f.Usable() && !f.Pending && f.Unwatchable == "" {
		return false
	}
	d.markPresent(f, t)
	return d.settleNode(t)
}

// checkUnconfirmedRemoval handles a report of discovery about a device whose removal is unconfirmed. The report may confirm
// or refute the removal.
func (d *Device) checkUnconfirmedRemoval(f verbs.Found, t *moment) {
	switch {
	case !d.unconfirmed, f.Usable() && f.Same(d.found) && f.Added <= d.found.Added:
	case d.hasMovedBack(f):
		d.cancelRemoval(t)
	case !d.canMove() || f.Usable():
		d.confirmRemoval(t)
	}
}

// updateFound handles a new report about a device that is present. It reports whether a worker
// should try to open the device now: no worker has it open, and the device has received its
// node, or an attribute of a device that could not be opened has changed.
func (d *Device) updateFound(f verbs.Found, t *moment) bool {
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

// markPresent makes an absent device present. If discovery only missed the device for a time,
// its worker still has it open. The worker is then replaced, since it does not repeat what it
// has reported: the states of the ports, and how peers reach them.
func (d *Device) markPresent(f verbs.Found, t *moment) {
	same := f.Same(d.found)
	d.refuted = d.refuted && same
	moved := d.netns.other || d.hasMovedBack(f)
	if d.netns.other {
		d.netns.other = false
		d.excuseFatals()
	}
	d.bindFunction(f, same, t)
	if moved { // from another network namespace
		d.returned = true // ports that are not known yet take the flag from here
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
		d.restartSupervision()
		return
	}
	// Faults of the device that went explain nothing about the device that came.
	d.fatalAt, d.removedAt, d.stuckSince, d.stuckUntil = 0, 0, 0, 0
}

// handleMissing handles a report of discovery without the device. now is the new name of a
// renamed device.
func (d *Device) handleMissing(now alias, t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.emitIfChanged(t)
	d.listed = false
	switch {
	case now.name != "" && d.seen:
		d.unconfirmed, d.netns.other = false, false // it was renamed
		d.removeByDiscovery(status.ReasonRenamed, t)
		d.handleRename(now)
		d.checkFunction()
		d.endSupervision()
	case d.present && d.reason == status.ReasonUnwatchable && !d.expected:
		d.removeByDiscovery(status.ReasonUnwatchable, t) // not counted as a removal: no worker had the device open
	case d.present && d.canMove(), d.netns.other:
		d.markLeftNetns(t)
	case d.present:
		d.removeByDiscovery(d.removedReason(), t)
	case d.mayBeMoving():
		d.confirmOverdueRemoval(t)
	case d.unconfirmed:
		d.confirmRemoval(t)
	}
	d.stopRetrying()
}

// stopRetrying ends the supervision of a device that is gone, if its Supervisor would keep
// trying to open it. The Supervisor does so if the worker ended for another reason than the
// removal. The caller holds d.mu.
func (d *Device) stopRetrying() {
	tries := d.status.State == status.StateBackingOff || d.status.Reason == status.ReasonUnwatchable
	if !d.present && !d.listed && !d.watching && tries {
		d.endSupervision()
	}
}

// removeByDiscovery marks a device absent because discovery no longer reports it.
func (d *Device) removeByDiscovery(why status.Reason, t *moment) {
	if !d.present {
		return
	}
	d.markAbsent(why, t)
	if why == d.removedReason() {
		d.countRemoval()
		d.emitRemovalEvidence(t)
	}
}

// removeByWorker marks a device absent because its worker reports the removal. The cause is
// certain only once discovery confirms the removal (confirmRemoval).
func (d *Device) removeByWorker(t *moment) {
	d.markAbsent(d.removedReason(), t)
	d.unconfirmed, d.uncounted = true, d.refuted || d.canMove()
	if !d.uncounted {
		d.countRemoval()
	}
}

// confirmRemoval completes an unconfirmed removal: it counts the removal, and emits the evidence.
func (d *Device) confirmRemoval(t *moment) {
	if d.uncounted {
		d.countRemoval()
	}
	d.unconfirmed, d.uncounted, d.refuted = false, false, false
	d.emitRemovalEvidence(t)
}

// refuteRemoval cancels an unconfirmed removal, because a worker has opened the device again.
func (d *Device) refuteRemoval(t *moment) {
	if !d.unconfirmed {
		return
	}
	d.unconfirmed, d.uncounted, d.refuted = false, false, true
	d.removals.waiting = false
	d.judgeAllTriggers(t)
	d.emitAbsenceEvidence("", "all: the worker lost the device, which the kernel has not removed", t)
}

// removedReason returns the reason that a removal gives the device: deleted for a soft device, since somebody deleted it on
// purpose, unless the configuration expects the device. The caller holds d.mu.
func (d *Device) removedReason() status.Reason {
	if d.found.Soft && !d.expected && !d.counted {
		return status.ReasonDeleted
	}
	return status.ReasonRemoved
}

// markAbsent makes a present device absent, and closes it.
func (d *Device) markAbsent(why status.Reason, t *moment) {
	d.present, d.reason, d.goneAt = false, why, t.mono
	d.markClosed(t)
}

// markClosed treats the device as closed from now on, without a fault of its worker. Events that the worker still reports until it
// has closed the device are counted, but its readings are ignored.
func (d *Device) markClosed(t *moment) {
	d.open = false
	for _, p := range d.ports {
		p.answered = false
		if c, ok := p.machine.HandleRemoved(t.mono); ok {
			d.emitChange(p, &c, t)
		}
	}
	d.endProbes()
	d.clearCommands(t)
	d.publish(Update{Gone: true}, t)
}

// endProbes drops the result of each probe's last round. The round may be hours old and
// does not describe the device now.
func (d *Device) endProbes() {
	for _, p := range d.probes {
		p.ended = false
	}
}

// ensureCounter returns the counter of an event type with its series and, for a port event,
// its port. It creates them if necessary. All are nil if the port is not counted.
func (d *Device) ensureCounter(t verbs.EventType, number int) (*counter, *series, *port) {
	if t.Scope() != verbs.ScopePort || number == 0 {
		return d.deviceSeries.ensureCounter(t), &d.deviceSeries, nil
	}
	p := d.ensurePort(number)
	if p == nil {
		return nil, nil, nil
	}
	return p.ensureCounter(t), &p.series, p
}

// ensurePort returns a port, and creates it if necessary. It returns nil for a port that is
// not counted.
func (d *Device) ensurePort(number int) *port {
	i, ok := slices.BinarySearchFunc(d.ports, number, func(p *port, n int) int { return p.port - n })
	if ok {
		return d.ports[i]
	}
	if number < 1 || number > maxPort || !d.cfg.Ports(d.name, number, d.attr.Uplink) {
		return nil
	}
	p := newPort(number, d.cfg.ExpectedDown(d.name, number))
	p.returned = d.returned
	p.role.name = d.cfg.Role(d.name, number)
	p.role.decided = p.role.name != ""
	d.ports = slices.Insert(d.ports, i, p)
	return p
}

// ensureProbe returns a probe, and creates it if necessary. It returns nil when there are
// already ledger.ProbeSlots probes.
func (d *Device) ensureProbe(k verbs.ProbeKey) *probe {
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

// emitChange emits a change of a port's state, and then the port.
func (d *Device) emitChange(p *port, c *portstate.Change, t *moment) {
	p.facts.changes = appendBounded(p.facts.changes, *c)
	d.cfg.Emit(p.makeChangePoint(d.name, c, t))
	d.emitPort(p, c.At, t)
}

// emitPort emits the present state of a port with the wall time of mono, unless the port waits for its role.
func (d *Device) emitPort(p *port, mono int64, t *moment) {
	p.emitted = p.attr
	d.updateLegs(p, t)
	v := d.observePort(p, t, t.wall(mono))
	d.publish(Update{Port: v}, t)
	if !p.role.isPending() {
		d.cfg.Emit(v)
	}
}

// emitIfChanged emits the point of the device if it differs from the last one in a value that points contain.
func (d *Device) emitIfChanged(t *moment) {
	v := d.makePoint(t)
	if withoutHidden(v) == d.emitted || !d.seen {
		return
	}
	d.emitted = withoutHidden(v)
	point := v // only this copy is allocated
	point.At = d.stamp.next(t.wall(t.mono), t.epoch)
	d.cfg.Emit(&point)
}

// withoutHidden returns v without the values whose change alone is no reason to emit a point.
func withoutHidden(v measure.Device) measure.Device {
	v.Worker.PID, v.Worker.Message, v.Worker.Reason = 0, "", ""
	v.OtherNetnsNS = 0 // grows with time alone
	return v
}

// makePoint returns the point of the device, without its time. It first decides device_fatal events and removals that are due.
func (d *Device) makePoint(t *moment) measure.Device {
	d.attributeFatals(t)
	d.endOverdueRemoval(t)
	v := measure.Device{
		Device: d.name, Present: d.present || d.netns.other, Open: d.open, Opens: d.opens,
		Removals: d.removals.all, UnplannedRemovals: d.removals.unplanned, FunctionRemovals: d.function.removals,
		Fatals: d.fatals.faults, Link: d.link.PCILink, Reason: d.reason, Worker: d.status, Attr: d.attr,
	}
	if d.mayBeMoving() {
		v.Present, v.Reason = true, status.ReasonStarting // lasts moveLimit at most, unless discovery still finds the device
	}
	if d.netns.other {
		v.InOtherNetns, v.OtherNetnsNS = true, max(0, t.boot-d.netns.since)
	}
	if d.present && d.found.NodeMissing {
		v.Reason = status.ReasonNodeMissing // even if a worker opened it earlier: other programs cannot open it now
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
