package monitor

import (
	"time"

	"rdma_events/internal/aggregate"
	"rdma_events/internal/measure"
	"rdma_events/internal/status"
)

// Gather returns what is emitted once per interval, in the order of device
// name, port, vector and method. Stats and rates are over the time since the
// Gather before; points are stamped with now. One goroutine at a time may call
// it, also before and after Run.
func (m *Monitor) Gather(now time.Time) measure.Snapshot {
	t := m.clock.read()
	devices, forgotten, found, discovered := m.list()
	g := gathering{t: &t, wall: now.UnixNano(), elapsed: t.mono - m.gathered, tmp: &m.scratch}
	m.gathered = t.mono
	for _, d := range devices {
		d.absence(found, &t)
		d.gather(&g, discovered)
	}
	g.totals.add(forgotten)
	g.out.Totals = g.totals.host
	c := &g.out.Collector
	c.Events, c.WorkerRestarts = g.totals.events, g.totals.restarts
	c.DeliveryP = m.delivery.percentiles(t.mono, &m.scratch)
	for _, pid := range g.pids {
		c.WorkerRSS += m.cfg.RSS(pid)
	}
	return g.out
}

// gathering is one Gather under way.
type gathering struct {
	out     measure.Snapshot
	t       *moment
	wall    int64
	elapsed int64
	tmp     *aggregate.Scratch
	pids    []int
	totals  totals
}

func (d *device) gather(g *gathering, discovered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retry(g.t)
	d.look()
	v := d.view()
	g.collect(&v)
	g.totals.add(d.totals(g.t))
	if d.finished && !d.expected || !d.seen && !discovered {
		return
	}
	d.told = visible(v)
	v.Time = d.stamp.next(g.wall, g.t.epoch)
	g.out.Devices = append(g.out.Devices, v)
	if d.finished || !d.seen {
		return
	}
	d.gatherSeries(g)
	d.finished = d.renamed && d.job == nil
}

func (d *device) gatherSeries(g *gathering) {
	g.out.Async = append(g.out.Async, d.own.view(d.name, g.elapsed))
	for _, p := range d.ports {
		g.out.Async = append(g.out.Async, p.series.view(d.name, g.elapsed))
		g.out.Ports = append(g.out.Ports, p.view(d.name, g.t, g.wall))
	}
	for _, p := range d.probes {
		g.out.Probes = append(g.out.Probes, p.view(d.name, g.t, g.elapsed, g.tmp))
	}
}

// totals sums up the device's counters, the running worker's as look found them.
func (d *device) totals(t *moment) totals {
	sum := totals{events: d.own.read(), restarts: d.restarts + d.status.Restarts}
	for _, p := range d.ports {
		sum.events += p.read()
		s := p.machine.View(t.mono)
		sum.host.Flaps += s.Flaps
		sum.host.MissedTransitions += s.Missed
	}
	for _, p := range d.probes {
		c := p.base.Add(p.live)
		sum.host.LostEvents += c.LostEvents
		sum.host.LostCompletions += c.LostCompletions
		sum.host.Errors += c.Errors
	}
	return sum
}

func (g *gathering) collect(v *measure.Device) {
	c := &g.out.Collector
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
