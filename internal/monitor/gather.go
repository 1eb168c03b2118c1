package monitor

import (
	"time"

	"rdma_events/internal/aggregate"
	"rdma_events/internal/worker"
)

// Gather returns what is emitted once per interval, in the order of device
// name, port, vector and method. Stats and rates are over the time since the
// Gather before; points are stamped with now. One goroutine at a time may call
// it, also before and after Run.
func (m *Monitor) Gather(now time.Time) Snapshot {
	t := m.clock.read()
	devices, forgotten, discovered := m.list()
	g := gathering{t: &t, wall: now.UnixNano(), elapsed: t.mono - m.gathered, tmp: &m.scratch}
	m.gathered = t.mono
	for _, d := range devices {
		d.gather(&g, discovered)
	}
	c := &g.out.Collector
	c.Events += forgotten.events
	c.WorkerRestarts += forgotten.restarts
	c.DeliveryP = m.delivery.percentiles(t.mono, &m.scratch)
	for _, pid := range g.pids {
		c.WorkerRSS += m.cfg.RSS(pid)
	}
	return g.out
}

// gathering is one Gather under way.
type gathering struct {
	out     Snapshot
	t       *moment
	wall    int64
	elapsed int64
	tmp     *aggregate.Scratch
	pids    []int
}

func (d *device) gather(g *gathering, discovered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.retry(g.t)
	d.look()
	v := d.view()
	g.collect(&v, d.events())
	if d.finished && !d.expected || !d.seen && !discovered {
		return
	}
	d.told = v.visible()
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

// events returns how many asynchronous events were read.
func (d *device) events() uint64 {
	n := d.own.read()
	for _, p := range d.ports {
		n += p.read()
	}
	return n
}

func (g *gathering) collect(v *DeviceView, events uint64) {
	c := &g.out.Collector
	if v.Present {
		c.Devices++
	}
	c.Events += events
	c.WorkerRestarts += v.Worker.Restarts
	if v.Worker.State == worker.StateStuck {
		c.WorkersStuck++
	}
	if v.Worker.PID != 0 {
		c.Workers++
		g.pids = append(g.pids, v.Worker.PID)
	}
}
