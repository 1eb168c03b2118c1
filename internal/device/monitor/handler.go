package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Started handles a worker that is about to run. led is its ledger, which has to stay
// mapped until Ended returns.
func (d *Device) Started(led *ledger.Ledger, collect func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.led, d.ledgerAppearance, d.collectRings = led, d.appearances, collect
}

// collect handles what the worker has left in the rings of its ledger. The caller does not hold d.mu.
func (d *Device) collect() {
	d.mu.Lock()
	collect := d.collectRings
	d.mu.Unlock()
	if collect != nil {
		collect()
	}
}

// RingItems handles events and rounds of the worker's rings.
func (d *Device) RingItems(items []verbs.Item) {
	t := d.clock.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range items {
		d.item(&items[i], &t)
	}
	d.lookAtCommands(&t)
	d.judgeDue(&t)
	d.emitIfChanged(&t)
}

// Batch handles a batch from the worker, and the worker's status after it.
func (d *Device) Batch(b verbs.Batch, s status.Status) {
	t := d.clock.read() // not by the worker's clocks: the moment is that of all devices
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b.Items {
		d.item(&b.Items[i], &t)
	}
	d.lookAtCommands(&t)
	d.judgeDue(&t)
	d.status = s
	d.emitIfChanged(&t)
}

// Ended handles the end of the worker. It emits the events that are in the ledger and
// did not come in the stream, since no other copy of them exists.
func (d *Device) Ended(why status.End) {
	t := d.clock.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readLedger(&t)
	d.addOverflow()
	if d.led != nil {
		d.publish(Update{Ledger: &d.snap, Ended: true}, &t)
	}
	d.led, d.collectRings = nil, nil
	d.lookAtCommands(&t)
	d.addDeadWorker(&d.own, &t)
	for _, p := range d.ports {
		d.addDeadWorker(&p.series, &t)
	}
	for _, p := range d.probes {
		p.addToBase()
	}
	d.close(why.Reason, &t)
	if !d.unconfirmed { // a removal that is confirmed explains what waits
		d.judgeAll(&t)
	}
	d.emitIfChanged(&t)
}

// Status handles a change of the worker's status that does not come with a batch.
func (d *Device) Status(s status.Status) {
	t := d.clock.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status = s
	switch s.Reason {
	case "", status.ReasonOK, status.ReasonRemoved: // opening and removal set the reason themselves
	default:
		if d.present && d.found.Unwatchable == "" {
			d.reason = s.Reason
		}
	}
	d.giveUp()
	d.emitIfChanged(&t)
}

func (d *Device) item(it *verbs.Item, t *moment) {
	switch {
	case it.Run != nil:
		d.run(it.Run, t)
	case it.Reading != nil:
		d.reading(it.Reading, t)
	case it.Round != nil:
		d.round(it.Round, t)
	case it.Opened != nil:
		d.opened(it.Opened, t)
	case it.Probe != nil:
		d.probeMade(it.Probe)
	case it.GIDs != nil:
		d.gids(it.GIDs, t)
	case it.Command != nil:
		d.commandEnded(it.Command, t)
	case it.Snapshot != nil:
		d.snapshot(it.Snapshot, t)
	case it.Objects != nil:
		d.objects(it.Objects)
	}
	if d.open {
		d.publish(Update{Item: it}, t)
	}
}

func (d *Device) opened(a *verbs.DeviceAttr, t *moment) {
	if d.renamed || d.released {
		return // it is about to close the device
	}
	if !d.present {
		// The worker had seen a removal, but could open the device again.
		d.disprove(t)
		d.enter(d.found, t)
		d.ledgerAppearance = d.appearances
	}
	if a.Firmware != "" {
		if d.firmware != "" && d.firmware != a.Firmware {
			d.emitAttr(0, "firmware", d.firmware, a.Firmware, t.wall(t.mono), t)
		}
		d.firmware = a.Firmware
	}
	if d.attr.NodeGUID != "" && a.NodeGUID != "" && d.attr.NodeGUID != a.NodeGUID {
		for _, p := range d.ports {
			p.bestGbps = 0 // another card has the name, which is no slower one
		}
	}
	d.attr = *a
	d.readLink(t)
	d.cfg.Memory.UpdateIdentity(d.name, d.memoryIdentity())
	d.opens++
	for n := range min(a.Ports, maxPort) {
		d.port(n + 1)
	}
	d.follow()
}

// follow begins to use the running worker's reports about the ports.
func (d *Device) follow() {
	d.watching, d.open, d.reason = true, true, status.ReasonOK
	for _, p := range d.ports {
		p.opened()
	}
	_, mono, _ := d.clock.now()
	d.openSince = mono
	for _, c := range d.commands {
		c.reopened = mono
	}
}

// close handles a device that the worker has closed, or that was removed while the
// worker had it open.
func (d *Device) close(why status.Reason, t *moment) {
	d.open, d.watching = false, false
	for _, p := range d.ports {
		p.answered = false
	}
	d.endProbes()
	switch {
	case !d.present || d.found.Unwatchable != "" || why == status.ReasonOK || why == "":
	case why != status.ReasonRemoved:
		d.reason = why
	case d.ledgerAppearance == d.appearances:
		d.leaveByWorker(t)
	}
}

func (d *Device) run(r *verbs.Run, t *moment) {
	c, s, p := d.counter(r.Type, r.Port)
	if c == nil || r.Count == 0 || r.Count >= ledger.ImplausibleCount-c.streamed {
		return
	}
	c.streamed += r.Count
	if r.Type == verbs.EventDeviceFatal {
		d.fatalAt = r.First
	}
	if !r.Unlisted {
		s.hold.AddRun(int64(r.Count), r.HoldSum, r.HoldMax)
		s.ack.AddRun(int64(r.Count), r.AckSum, r.AckMax)
		d.delivery.add(t.mono, r.First)
	}
	d.cfg.Emit(&measure.Event{
		Device: d.name, Type: c.typ, Port: s.port, Count: r.Count, Total: c.base + c.streamed,
		At: c.stamp.next(t.wall(r.Last), t.epoch), First: unixNano(t.wall(r.First)),
		HoldMax: r.HoldMax, AckMax: r.AckMax, LateNS: d.lateBy(r.Type, r.First),
	})
	if p == nil {
		return
	}
	if change, ok := p.machine.Event(r); ok {
		d.emitChange(p, &change, t)
	}
}

// addDeadWorker adds the dead worker's counts to one series, and emits the events that
// did not come in the worker's stream.
func (d *Device) addDeadWorker(s *series, t *moment) {
	for _, c := range s.counters {
		rest := c.addToBase()
		if rest == 0 {
			continue
		}
		at := c.stamp.next(t.wall(t.mono), t.epoch)
		d.cfg.Emit(&measure.Event{
			Device: d.name, Type: c.typ, Port: s.port, Count: rest, Total: c.base, At: at, First: at,
		})
	}
}

func (d *Device) reading(r *verbs.Reading, t *moment) {
	p := d.port(r.Port)
	if p == nil || !d.open {
		return
	}
	if p.queryError.update(r.Err) {
		d.log.Warn("port query failed: " + r.Err)
	}
	d.held.note(r.Mono, r.Took)
	if r.Refused != "" && !p.refused && p.queryError.text == "" {
		d.log.Warn(fmt.Sprintf("the firmware refuses reads of port %d: %s; they are tried at most %d times an hour; "+
			"devices_exclude leaves the device out", r.Port, r.Refused, verbs.RefusalsAnHour))
	}
	p.refused = r.Refused != ""
	if r.Err != "" {
		p.answered = false
		return
	}
	d.portAnswered(p.port, t)
	changed := p.update(r.Mono, &r.Attr)
	p.role.begin(p.netdev, d.cfg.CarriesDefaultRoute, t.mono)
	p.noteSubnetManager(r.Mono)
	p.compare(r.Mono, func(attr, from, to string) { d.emitAttr(p.port, attr, from, to, t.wall(r.Mono), t) })
	if !r.RateOnly {
		if change, ok := p.machine.Reading(r.Mono, &r.Attr); ok {
			d.emitChange(p, &change, t)
			return
		}
	}
	if changed {
		d.emitPort(p, r.Mono, t)
	}
}

// gids handles a reading of a port's GID table.
func (d *Device) gids(table *verbs.GIDTable, t *moment) {
	p := d.port(table.Port)
	if p == nil || !d.open {
		return
	}
	before := p.gidMoves
	changes := p.gids.Read(table)
	if len(changes) > 0 {
		p.facts.gids = remember(p.facts.gids, gidChanges{table.Mono, changes})
	}
	for _, c := range changes {
		if c.Action == verbs.GIDMoved && !c.GID.IsLinkLocal() {
			p.gidMoves++
		}
		d.cfg.Emit(&measure.GIDChange{
			Device: d.name, Port: p.port, Action: c.Action, GID: c.GID, From: c.From, To: c.To, AwayNS: c.Away,
			Probed: c.Probed, Reopened: c.Reopened, Changes: 1, At: p.gidStamp.next(t.wall(table.Mono), t.epoch),
		})
	}
	if p.gidMoves != before {
		d.emitPort(p, table.Mono, t)
	}
}

// objects logs a problem with the list of who holds the objects of the device.
func (d *Device) objects(o *verbs.Objects) {
	if d.open && d.listError.update(o.Problem) {
		d.log.Warn("objects cannot be listed: " + o.Problem)
	}
}

func (d *Device) emitAttr(port int, attr, from, to string, wall int64, t *moment) {
	d.cfg.Emit(&measure.AttrChange{
		Device: d.name, Port: port, Attr: attr, From: from, To: to, Changes: 1, At: d.attrStamp.next(wall, t.epoch),
	})
}

func (d *Device) round(r *verbs.RoundItem, t *moment) {
	p := d.probe(r.ProbeKey)
	if p == nil {
		return
	}
	p.round(&r.Round, t.mono)
	p.ended = p.ended && d.open // the round may arrive after the removal was found
}

// probeMade handles the choice of a probe's method. It logs a warning if an active port
// has no probe: the operator can fix the cause, for example a limit. A port that is not
// active is expected to have no probe.
func (d *Device) probeMade(it *verbs.ProbeItem) {
	p, why := d.port(it.Port), ""
	if it.Method != verbs.MethodNone {
		d.probe(it.ProbeKey)
	} else if p != nil && p.attr.State == verbs.PortActive {
		why = it.Reason
	}
	if p != nil && p.probeError.update(why) {
		d.log.Warn(fmt.Sprintf("no probe on port %d: %s", it.Port, why))
	}
	level := slog.LevelDebug
	if p != nil && !p.probed && it.Method != verbs.MethodNone {
		p.probed, level = true, slog.LevelInfo // later choices come as often as the link changes
	}
	d.log.Log(context.Background(), level, "probe",
		"port", it.Port, "vector", it.Vector, "method", it.Method.String(), "reason", it.Reason)
}

// hasProbe reports whether a slot of the ledger belongs to a series. A method that was
// only tried has no rounds, and gets no series.
func (d *Device) hasProbe(e *ledger.Probe) bool {
	if e.Port < 1 || e.Port > maxPort || e.Vector > maxVector || e.Method <= int(verbs.MethodNone) || e.Method > int(verbs.MethodFlush) {
		return false // the worker's memory is damaged
	}
	key := keyOf(e)
	return e.Rounds > 0 || e.Events != e.Acked || slices.ContainsFunc(d.probes, func(p *probe) bool { return p.ProbeKey == key })
}

func keyOf(e *ledger.Probe) verbs.ProbeKey {
	return verbs.ProbeKey{Port: e.Port, Vector: e.Vector, Method: verbs.Method(e.Method)}
}

// addOverflow adds the events that a dead worker had no slots for in its ledger and that did
// not come in its stream either. Their types and ports are unknown.
func (d *Device) addOverflow() {
	if d.led == nil {
		return
	}
	for i := range d.snap.Events {
		e := &d.snap.Events[i]
		if e.Type != ledger.Overflow {
			continue
		}
		rest := e.Read - min(e.Read, d.streamedWithoutSlot())
		c := d.own.counter(verbs.EventType(ledger.Overflow))
		c.live += rest // it also has the types for which the series has no place
		c.liveAcked += rest - min(rest, e.Read-e.Acked)
	}
}

// streamedWithoutSlot returns how many events came in the stream of the worker and are not in
// the slot of their type and port, because there was none left.
func (d *Device) streamedWithoutSlot() uint64 {
	var n uint64
	add := func(s *series) {
		for _, c := range s.counters {
			slot := func(e ledger.EventCounts) bool { return e.Type == int32(c.typ) && int(e.Port) == s.port }
			if c.streamed > 0 && !slices.ContainsFunc(d.snap.Events, slot) {
				n += c.streamed
			}
		}
	}
	add(&d.own)
	for _, p := range d.ports {
		add(&p.series)
	}
	return n
}

// readLedger reads the running worker's counts from its ledger.
func (d *Device) readLedger(t *moment) {
	if d.led == nil {
		return
	}
	d.led.CopyTo(&d.snap)
	d.publish(Update{Ledger: &d.snap}, t)
	for i := range d.snap.Events {
		e := &d.snap.Events[i]
		if e.Type == ledger.Overflow {
			continue // the stream has the types and ports of these events: see addOverflow
		}
		if c, _, _ := d.counter(verbs.EventType(e.Type), int(e.Port)); c != nil {
			c.sumRead += e.Read
			c.sumAcked += e.Acked
		}
	}
	for _, c := range d.own.counters {
		c.update()
	}
	for _, p := range d.ports {
		for _, c := range p.counters {
			c.update()
		}
	}
	for i := range d.snap.Probes {
		e := &d.snap.Probes[i]
		if !d.hasProbe(e) {
			continue
		}
		if p := d.probe(keyOf(e)); p != nil {
			p.live.Raise(e.ProbeCounts)
		}
	}
}
