package monitor

import (
	"context"
	"log/slog"
	"slices"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// Started handles a worker that is about to run. led is its ledger, which must stay mapped
// until Ended returns. collect makes the Supervisor pass the contents of the ledger's rings to Seen.
func (d *Device) Started(led *ledger.Ledger, collect func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ledger, d.ledgerAppearance, d.collectRings = led, d.appearances, collect
}

// collectRingItems handles the items in the rings of the worker's ledger. The caller must not hold d.mu.
func (d *Device) collectRingItems() {
	d.mu.Lock()
	collect := d.collectRings
	d.mu.Unlock()
	if collect != nil {
		collect()
	}
}

// RingItems handles events and probe rounds from the rings of the worker's ledger.
func (d *Device) RingItems(items []verbs.Item) {
	t := d.clock.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range items {
		d.handleItem(&items[i], &t)
	}
	d.checkRunningCalls(&t)
	d.judgeDueTriggers(&t)
	d.emitIfChanged(&t)
}

// Batch handles a batch from the worker, and the worker's status after it.
func (d *Device) Batch(b verbs.Batch, s status.Status) {
	t := d.clock.read() // the host's clock, not the worker's: all devices share it
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b.Items {
		d.handleItem(&b.Items[i], &t)
	}
	d.checkRunningCalls(&t)
	d.judgeDueTriggers(&t)
	d.status = s
	d.emitIfChanged(&t)
}

// Ended handles the end of the worker. It emits the events that are in the ledger and
// that the stream did not bring, since no other copy of them exists.
func (d *Device) Ended(why status.End) {
	t := d.clock.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readLedger(&t)
	d.addOverflow()
	if d.ledger != nil {
		d.publish(Update{Ledger: &d.ledgerCounts, Ended: true}, &t)
	}
	d.ledger, d.collectRings = nil, nil
	d.checkRunningCalls(&t)
	d.addDeadWorker(&d.deviceSeries, &t)
	for _, p := range d.ports {
		d.addDeadWorker(&p.series, &t)
	}
	for _, p := range d.probes {
		p.addToBase()
	}
	d.handleClosed(why.Reason, &t)
	if !d.unconfirmed { // else the waiting triggers are judged once the removal is confirmed or refuted
		d.judgeAllTriggers(&t)
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
	d.stopRetrying()
	d.emitIfChanged(&t)
}

// handleItem handles one item from the rings or from a batch, and passes it to the subscribers if the device is open. The caller
// holds d.mu, as for all methods below that take an item.
func (d *Device) handleItem(it *verbs.Item, t *moment) {
	switch {
	case it.Run != nil:
		d.handleRun(it.Run, t)
	case it.Reading != nil:
		d.handleReading(it.Reading, t)
	case it.Round != nil:
		d.handleRound(it.Round, t)
	case it.Opened != nil:
		d.handleOpened(it.Opened, t)
	case it.Probe != nil:
		d.handleProbeChoice(it.Probe)
	case it.GIDs != nil:
		d.handleGIDs(it.GIDs, t)
	case it.Command != nil:
		d.handleCommand(it.Command, t)
	case it.Snapshot != nil:
		d.handleSnapshot(it.Snapshot, t)
	case it.Objects != nil:
		d.logListProblem(it.Objects)
	}
	if d.open {
		d.publish(Update{Item: it}, t)
	}
}

// handleOpened handles that the worker has opened the device.
func (d *Device) handleOpened(a *verbs.DeviceAttr, t *moment) {
	if d.renamed || d.released {
		return // the worker is about to close the device
	}
	if !d.present && !d.unconfirmed && !d.listed {
		// Discovery has reported the removal meanwhile, and the worker is about to notice it.
		d.watching = true
		return
	}
	if !d.present {
		// The worker had reported a removal, but opened the device again.
		d.refuteRemoval(t)
		d.markPresent(d.found, t)
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
			p.bestGbps = 0 // another card has taken the name; its rate must not count as too slow
		}
	}
	d.attr = *a
	d.readLink(t)
	d.cfg.Memory.UpdateIdentity(d.name, d.memoryIdentity())
	d.opens++
	for n := range min(a.Ports, maxPort) {
		d.ensurePort(n + 1)
	}
	d.useWorkerReports()
}

// useWorkerReports makes the device open: from now on the running worker's reports describe it.
func (d *Device) useWorkerReports() {
	d.watching, d.open, d.reason = true, true, status.ReasonOK
	for _, p := range d.ports {
		p.resetForOpen()
	}
	_, mono, _ := d.clock.now()
	d.openSince = mono
	for _, c := range d.commands {
		c.reopened = mono
	}
}

// handleClosed handles the end of a worker that had the device open, perhaps because of a
// removal.
func (d *Device) handleClosed(why status.Reason, t *moment) {
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
		d.removeByWorker(t)
	}
}

// handleRun counts and emits a run of equal events, and emits the change of the port's state that it causes.
func (d *Device) handleRun(r *verbs.Run, t *moment) {
	c, s, p := d.ensureCounter(r.Type, r.Port)
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
	at := c.stamp.next(t.wall(r.Last), t.epoch)
	c.runs = appendBounded(c.runs, emittedRun{r.First, r.Last, at.UnixNano(), t.epoch})
	d.cfg.Emit(&measure.Event{
		Device: d.name, Type: c.typ, Port: s.port, Count: r.Count, Total: c.base + c.streamed,
		At: at, First: unixNano(t.wall(r.First)),
		HoldMax: r.HoldMax, AckMax: r.AckMax, LateNS: d.eventLateness(r.Type, r.First),
	})
	if p == nil {
		return
	}
	if change, ok := p.machine.HandleEvents(r); ok {
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

// handleReading handles the answer of a port query, or its error.
func (d *Device) handleReading(r *verbs.Reading, t *moment) {
	p := d.ensurePort(r.Port)
	if p == nil || !d.open {
		return
	}
	if p.queryError.update(r.Err) {
		d.log.Warn("port query failed", "port", p.port, "error", r.Err)
	}
	d.stall.recordCall(r.Mono, r.Took)
	if r.Refused != "" && !p.refused && p.queryError.text == "" {
		d.log.Warn("firmware refuses reads of the port", "port", r.Port, "read", r.Refused, "retries_per_hour", verbs.RefusalsAnHour,
			"hint", "devices_exclude excludes the device")
	}
	p.refused, p.restricted = r.Refused != "", r.Restricted
	if r.Err != "" {
		p.answered = false
		return
	}
	d.handlePortAnswer(p.port, t)
	changed := p.updateAttr(r.Mono, &r.Attr)
	p.role.startDeciding(p.netdev, d.cfg.CarriesDefaultRoute, t.mono)
	p.recordSubnetManager(r.Mono)
	p.reportAttrChanges(r.Mono, func(attr, from, to string) { d.emitAttr(p.port, attr, from, to, t.wall(r.Mono), t) })
	if !r.RateOnly {
		if change, ok := p.machine.HandleReading(r.Mono, &r.Attr); ok {
			d.emitChange(p, &change, t)
			return
		}
	}
	if changed {
		d.emitPort(p, r.Mono, t)
	}
}

// handleGIDs handles a reading of a port's GID table.
func (d *Device) handleGIDs(table *verbs.GIDTable, t *moment) {
	p := d.ensurePort(table.Port)
	if p == nil || !d.open {
		return
	}
	before := p.gidMoves
	changes := p.gids.Update(table)
	if len(changes) > 0 {
		p.facts.gids = appendBounded(p.facts.gids, gidChanges{table.Mono, changes})
	}
	for _, c := range changes {
		if c.Action == verbs.GIDMoved && !c.GID.IsLinkLocal() && !c.GID.OtherNetns {
			p.gidMoves++ // addresses in other namespaces come and go with pods, as do the programs that use them
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

// logListProblem logs a problem with the list of who holds the objects of the device.
func (d *Device) logListProblem(o *verbs.Objects) {
	if d.open && d.listError.update(o.Problem) {
		d.log.Warn("listing objects failed", "error", o.Problem)
	}
}

// emitAttr emits the change of an attribute of the device (port 0) or of a port.
func (d *Device) emitAttr(port int, attr, from, to string, wall int64, t *moment) {
	d.cfg.Emit(&measure.AttrChange{
		Device: d.name, Port: port, Attr: attr, From: from, To: to, Changes: 1, At: d.attrStamp.next(wall, t.epoch),
	})
}

// handleRound handles the result of a probe round.
func (d *Device) handleRound(r *verbs.RoundItem, t *moment) {
	p := d.ensureProbe(r.ProbeKey)
	if p == nil {
		return
	}
	p.addRound(&r.Round, t.mono)
	p.ended = p.ended && d.open // the round may arrive after the removal
}

// handleProbeChoice handles the worker's choice of a probe method. It logs a warning if an
// active port has no probe: the operator can fix the cause, for example a resource limit. A
// port that is not active is expected to have no probe.
func (d *Device) handleProbeChoice(it *verbs.ProbeItem) {
	p, why := d.ensurePort(it.Port), ""
	if it.Method != verbs.MethodNone {
		d.ensureProbe(it.ProbeKey)
	} else if p != nil && p.attr.State == verbs.PortActive {
		why = it.Reason
	}
	if p != nil && p.probeError.update(why) {
		d.log.Warn("probe unavailable", "port", it.Port, "error", why)
	}
	level := slog.LevelDebug
	if p != nil && !p.probed && it.Method != verbs.MethodNone {
		p.probed, level = true, slog.LevelInfo // later choices come as often as the link changes
	}
	d.log.Log(context.Background(), level, "probe method chosen",
		"port", it.Port, "vector", it.Vector, "method", it.Method.String(), "reason", it.Reason)
}

// hasProbe reports whether a slot of the ledger belongs to a series. A method that was
// only tried has no rounds and gets no series.
func (d *Device) hasProbe(e *ledger.Probe) bool {
	if e.Port < 1 || e.Port > maxPort || e.Vector > maxVector || e.Method <= int(verbs.MethodNone) || e.Method > int(verbs.MethodFlush) {
		return false // the worker's memory is damaged
	}
	key := probeKeyOf(e)
	return e.Rounds > 0 || e.Events != e.Acked || slices.ContainsFunc(d.probes, func(p *probe) bool { return p.ProbeKey == key })
}

func probeKeyOf(e *ledger.Probe) verbs.ProbeKey {
	return verbs.ProbeKey{Port: e.Port, Vector: e.Vector, Method: verbs.Method(e.Method)}
}

// addOverflow adds the events for which a dead worker had no slots in its ledger and that its
// stream did not bring. Their types and ports are unknown.
func (d *Device) addOverflow() {
	if d.ledger == nil {
		return
	}
	for i := range d.ledgerCounts.Events {
		e := &d.ledgerCounts.Events[i]
		if e.Type != ledger.Overflow {
			continue
		}
		rest := e.Read - min(e.Read, d.streamedWithoutSlot())
		c := d.deviceSeries.ensureCounter(verbs.EventType(ledger.Overflow))
		c.live += rest // this counter also has the types beyond maxTypes
		c.liveAcked += rest - min(rest, e.Read-e.Acked)
	}
}

// streamedWithoutSlot returns how many events of the worker's stream have no slot of their type
// and port in the ledger, because all slots were taken.
func (d *Device) streamedWithoutSlot() uint64 {
	var n uint64
	add := func(s *series) {
		for _, c := range s.counters {
			slot := func(e ledger.EventCounts) bool { return e.Type == int32(c.typ) && int(e.Port) == s.port }
			if c.streamed > 0 && !slices.ContainsFunc(d.ledgerCounts.Events, slot) {
				n += c.streamed
			}
		}
	}
	add(&d.deviceSeries)
	for _, p := range d.ports {
		add(&p.series)
	}
	return n
}

// readLedger reads the running worker's counts from its ledger.
func (d *Device) readLedger(t *moment) {
	if d.ledger == nil {
		return
	}
	d.ledger.CopyTo(&d.ledgerCounts)
	d.publish(Update{Ledger: &d.ledgerCounts}, t)
	for i := range d.ledgerCounts.Events {
		e := &d.ledgerCounts.Events[i]
		if e.Type == ledger.Overflow {
			continue // the stream has the types and ports of these events: see addOverflow
		}
		if c, _, _ := d.ensureCounter(verbs.EventType(e.Type), int(e.Port)); c != nil {
			c.sumRead += e.Read
			c.sumAcked += e.Acked
		}
	}
	for _, c := range d.deviceSeries.counters {
		c.applyLedgerSums()
	}
	for _, p := range d.ports {
		for _, c := range p.counters {
			c.applyLedgerSums()
		}
	}
	for i := range d.ledgerCounts.Probes {
		e := &d.ledgerCounts.Probes[i]
		if !d.hasProbe(e) {
			continue
		}
		if p := d.ensureProbe(probeKeyOf(e)); p != nil {
			p.live.Raise(e.ProbeCounts)
		}
	}
}
