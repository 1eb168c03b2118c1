package monitor

import (
	"slices"
	"time"

	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// Gather returns the points that are emitted once per interval. First come the points
// of rdma_async, then those of the ports, the probes, the commands and the devices, in the
// order of device name, port, completion vector and method or call. The point of the host comes last, if
// the host has a device or one is expected. Statistics and rates cover the time since the
// last Gather. The Collector in the result has the counts of devices and workers. One goroutine at a
// time may call Gather, also before and after Run.
func (m *Monitor) Gather(now time.Time) measure.Interval {
	t := m.clock.read()
	o := m.takeOverview(&t)
	g := gathering{t: &t, now: now, elapsed: t.mono - m.gathered, tmp: &m.scratch}
	g.collector.At, g.collector.FunctionsSkipped = now, o.skipped
	m.gathered = t.mono
	decideRoles(o.devices, &t)
	compareRates(o.devices)
	for _, d := range o.devices {
		d.explainAbsence(o.found, &t)
		d.collectRingItems()
		d.gatherPoints(&g, o.discovered)
	}
	g.totals.add(o.forgotten)
	c := &g.collector
	c.AsyncEvents, c.WorkerRestarts, c.EvidenceMerged = g.totals.events, g.totals.restarts, g.totals.merged
	c.DeliveryP = m.delivery.percentiles(t.mono, &m.scratch)
	if len(m.cfg.Groups) > 0 && o.discovered {
		c.Counted = true
		c.ExpectedMissing, c.ExpectedMissingOf = countMissing(m.cfg.Groups, o.devices)
	}
	for _, pid := range g.pids {
		c.WorkerRSS += m.cfg.RSS(pid)
	}
	return g.makeInterval()
}

// gathering is the state of one call of Gather.
type gathering struct {
	t       *moment
	now     time.Time
	elapsed int64
	tmp     *aggregate.Scratch

	async, ports, probes, commands, devices []measure.Point

	collector measure.Collector
	pids      []int
	totals    totals
}

// makeInterval returns all gathered points, and the point of the host that sums them up.
func (g *gathering) makeInterval() measure.Interval {
	i := measure.Interval{Own: &g.collector}
	if len(g.devices) > 0 {
		i.Host = &measure.Host{HostTotals: g.totals.host, At: g.now}
	}
	i.Add(slices.Concat(g.async, g.ports, g.probes, g.commands, g.devices)...)
	if i.Host != nil {
		i.Points = append(i.Points, i.Host)
	}
	return i
}

// gatherPoints adds the points of the device to g. discovered tells that discovery has reported: before, a device that was never
// seen has no point.
func (d *Device) gatherPoints(g *gathering, discovered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retryOpening(g.t)
	d.readLedger(g.t)
	d.checkRunningCalls(g.t)
	d.judgeDueTriggers(g.t)
	d.readLink(g.t)
	v := d.makePoint(g.t)
	g.countDevice(&v)
	g.totals.add(d.totals(g.t))
	if d.finished && !d.expected || !d.seen && !discovered {
		return
	}
	d.emitted = withoutHidden(v)
	v.At = d.stamp.next(g.now.UnixNano(), g.t.epoch)
	g.devices = append(g.devices, &v)
	if d.finished || !d.seen {
		return
	}
	d.gatherSeries(g)
	d.finished = d.renamed && d.job == nil
}

// gatherSeries adds the points of the device's events, ports, probes and commands to g.
func (d *Device) gatherSeries(g *gathering) {
	d.rememberDevice(g.t)
	g.async = append(g.async, d.deviceSeries.makePoint(d.name, g))
	for _, p := range d.ports {
		g.async = append(g.async, p.series.makePoint(d.name, g))
		d.updateLegs(p, g.t)
		v := d.observePort(p, g.t, g.now.UnixNano())
		if !p.role.isPending() {
			g.ports = append(g.ports, v)
			d.publish(Update{Port: v}, g.t)
		}
	}
	for _, p := range d.probes {
		role, known := d.roleTag(p.Port)
		if !known {
			continue
		}
		v := p.makePoint(d.name, g)
		v.Role = role
		g.probes = append(g.probes, v)
		if p.histogram != nil {
			g.probes = append(g.probes, &measure.Histogram{
				Device: d.name, ProbeKey: p.ProbeKey, Below: p.histogram.Cumulative(), Sum: p.histogram.Sum(), At: g.now,
			})
		}
	}
	if d.present {
		for _, c := range d.commands {
			if role, known := d.roleTag(c.port); known {
				v := c.makePoint(d.name, g.t, g)
				v.Role = role
				g.commands = append(g.commands, v)
			}
		}
	}
}

// totals sums up the device's counters, with those of the running worker as of the last
// readLedger.
func (d *Device) totals(t *moment) totals {
	sum := totals{events: d.deviceSeries.totalEvents(), restarts: d.restarts + d.status.Restarts}
	for _, p := range d.ports {
		sum.events += p.totalEvents()
		s := p.machine.View(t.mono)
		sum.host.Flaps += s.Flaps
		sum.host.MissedTransitions += s.Missed
		sum.host.GIDMoves += p.gidMoves
		sum.merged += p.facts.merged
	}
	for _, p := range d.probes {
		c := p.base.Add(p.live)
		sum.host.LostEvents += c.LostEvents
		sum.host.LostCompletions += c.LostCompletions
		sum.host.Errors += c.Errors
	}
	return sum
}

// countDevice counts a device, and its worker if one runs, for the point of the Collector.
func (g *gathering) countDevice(v *measure.Device) {
	c := &g.collector
	if v.Present {
		c.Devices++
	}
	if v.Worker.State == status.StateStuck {
		c.WorkersStuck++
	}
	if v.Worker.PID != 0 {
		c.Workers++
		g.pids = append(g.pids, v.Worker.PID)
	}
}
