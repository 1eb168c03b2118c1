package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/bonds"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/routes"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/telemetry/measure"
)

// part is one part of a Watcher beside the monitor of the devices. A function that the part does not need is nil.
type part struct {
	// run works until ctx is done.
	run func(ctx context.Context, m *monitor.Monitor)
	// outlasts makes run go on until the workers have ended.
	outlasts bool
	// gather adds the points of an interval. It does not block.
	gather func(i *measure.Interval, now time.Time)
	// close releases what opening the part has acquired. It is called after run has returned.
	close func() error
}

// opening opens the parts of a Watcher. Each method opens one part, configures the monitor for it, and starts nothing. A part
// that the options do not ask for is the zero part.
type opening struct {
	config    *Config
	request   verbs.Request
	emit      func(measure.Point)
	statusDir string         // see Options.StatusDir
	memory    *memory.Memory // of the devices that this host has had
	log       *slog.Logger
	monitor   *monitor.Config
	starts    *process.Starts

	probing  *probing  // nil without fabric.peers_file
	programs *programs // of the workers and the tracer
	tracing  *tracing  // nil without applications.events
}

// openParts opens all parts. The order of the list is that of their points, which come after those of the monitor.
func (o *opening) openParts() ([]part, error) {
	var parts []part
	for _, open := range []func() (part, error){
		o.openFabric,
		o.openWorkers,
		o.openApplications,
		o.openNetwork,
		o.openReleases,
		o.openMemory,
	} {
		p, err := open()
		if err != nil {
			return nil, errors.Join(err, closeParts(parts))
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func closeParts(parts []part) error {
	var all []error
	for _, p := range parts {
		if p.close != nil {
			all = append(all, p.close())
		}
	}
	return errors.Join(all...)
}

// openFabric opens the probes between hosts.
func (o *opening) openFabric() (part, error) {
	p, err := o.config.openProbing(o.request, o.emit, o.log)
	if err != nil || p == nil {
		return part{}, err
	}
	o.probing = p
	o.monitor.Subscribers = append(o.monitor.Subscribers, p.update)
	return part{
		run:    func(ctx context.Context, _ *monitor.Monitor) { p.run(ctx) },
		gather: func(i *measure.Interval, now time.Time) { i.Add(p.keeper.Points(now)...) },
		close:  p.close,
	}, nil
}

// openWorkers opens the program of the workers. The monitor runs a worker for each device, and its orders come from the fabric.
func (o *opening) openWorkers() (part, error) {
	c := o.config
	p, err := c.openPrograms()
	if err != nil {
		return part{}, err
	}
	o.programs = p
	o.monitor.NewSupervisor = func(device string, h *monitor.Device) monitor.Supervisor {
		return worker.New(worker.Config{
			Exe: p.worker, Dir: p.dir, Request: c.request(device, o.request), Reads: c.Reads(o.request), Timing: c.timing(), Starts: o.starts,
			Log: o.log, Orders: o.probing.of(device), Present: c.present(device), Expected: slices.Contains(c.ExpectedNames(), device),
		}, h)
	}
	return part{close: p.close}, nil
}

// openApplications opens the picture of which application holds which objects, and the tracer, which adds their events.
func (o *opening) openApplications() (part, error) {
	holders, err := o.config.Applications.newInventory(o.config.Backend, o.request, o.emit)
	if err != nil || holders == nil {
		return part{}, err
	}
	o.monitor.Subscribers = append(o.monitor.Subscribers, func(u monitor.Update) {
		switch {
		case u.Gone:
			holders.RemoveDevice(u.Device)
		case u.Item != nil && u.Item.Objects != nil:
			holders.AddObjects(u.Device, u.Item.Objects)
		}
	})
	t := o.config.newTracing(o.programs, holders, o.request, o.starts, o.log)
	if t != nil {
		o.tracing = t
		o.monitor.Discovery = waking{o.monitor.Discovery, t.wake}
	}
	return part{
		run: func(ctx context.Context, _ *monitor.Monitor) {
			var tracing sync.WaitGroup
			defer tracing.Wait()
			if t != nil {
				tracing.Go(func() { t.run(ctx) })
			}
			holders.Run(ctx)
		},
		gather: func(i *measure.Interval, now time.Time) {
			if i.Host != nil {
				i.Host.Apps = holders.Host()
			}
			i.Add(holders.Points(now, t.worker())...)
		},
	}, nil
}

// openNetwork opens what tells the monitor about the network devices of the ports: their bonds, and whether they carry the default
// route. Simulated ports have no network devices.
func (o *opening) openNetwork() (part, error) {
	if o.config.Simulated() {
		return part{}, nil
	}
	legs := &bonds.Table{}
	o.monitor.Legs = legs.Legs
	o.monitor.CarriesDefaultRoute = routes.Table{}.CarriesDefault
	return part{run: func(ctx context.Context, m *monitor.Monitor) {
		legs.Run(ctx, m.LegsChanged, func(err error) { o.log.Warn(err.Error()) })
	}}, nil
}

// openReleases opens the releases of devices, and the socket of the commands that release and resume them.
func (o *opening) openReleases() (part, error) {
	r := o.config.openReleases(o.statusDir, o.log)
	o.monitor.Released = r.released
	r.listen(o.statusDir)
	return part{run: r.run, outlasts: true, close: r.close}, nil
}

// openMemory opens what this host remembers of its devices.
func (o *opening) openMemory() (part, error) {
	m, begun := o.memory, time.Now()
	o.monitor.Memory = m
	if !m.IsPersistent() {
		return part{gather: func(i *measure.Interval, _ time.Time) { i.Own.MemorySince = begun }}, nil
	}
	return part{
		run: func(ctx context.Context, watching *monitor.Monitor) {
			m.Run(ctx, func(f memory.Forgotten) { watching.Forget(f.Device, f.Port) }, o.log)
		},
		outlasts: true,
		gather:   func(*measure.Interval, time.Time) { m.RequestSync() },
	}, nil
}
