package agent

import (
	"context"
	"errors"
	"log/slog"
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

// part is one part of a Watcher, in addition to the monitor of the devices. Functions that a part does not need are
// nil.
type part struct {
	// run works until ctx is done.
	run func(ctx context.Context, m *monitor.Monitor)
	// outlivesWorkers makes run continue until the workers have exited.
	outlivesWorkers bool
	// gather adds the points of an interval. It does not block.
	gather func(i *measure.Interval, now time.Time)
	// close releases the resources of the part. It is called after run has returned.
	close func() error
}

// partOpener opens the parts of a Watcher. Each method opens one part and configures the monitor for it. It starts
// nothing. If the options disable a part, its method returns the zero part.
type partOpener struct {
	config       *Config
	request      verbs.Request
	emit         func(measure.Point)
	statusDir    string         // see Options.StatusDir
	memory       *memory.Memory // devices that this host has had
	log          *slog.Logger
	monitor      *monitor.Config
	startLimiter *process.Starts

	fabric   *fabricService // nil without fabric.peers_file
	programs *programs      // the worker and tracer programs
	tracer   *tracerService // nil without applications.events
}

// openParts opens all parts. Their points follow the monitor's, in the order of the list.
func (o *partOpener) openParts() ([]part, error) {
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

// closeParts closes the parts and returns all of their errors.
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
func (o *partOpener) openFabric() (part, error) {
	p, err := o.config.openFabricService(o.request, o.emit, o.log)
	if err != nil || p == nil {
		return part{}, err
	}
	o.fabric = p
	o.monitor.Subscribers = append(o.monitor.Subscribers, p.handleUpdate)
	return part{
		run:    func(ctx context.Context, _ *monitor.Monitor) { p.run(ctx) },
		gather: func(i *measure.Interval, now time.Time) { i.Add(p.keeper.Points(now)...) },
		close:  p.close,
	}, nil
}

// openWorkers opens the worker program. The monitor runs one worker for each device; the fabric gives it orders.
func (o *partOpener) openWorkers() (part, error) {
	c := o.config
	p, err := c.openPrograms()
	if err != nil {
		return part{}, err
	}
	o.programs = p
	o.monitor.NewSupervisor = func(device string, h *monitor.Device) monitor.Supervisor {
		return worker.New(worker.Config{
			Exe: p.worker, Dir: p.dir, Request: c.workerRequest(device, o.request), Reads: c.WorkerFiles(o.request), Timing: c.processTiming(), Starts: o.startLimiter,
			Log: o.log, Orders: o.fabric.workerOrders(device), Present: c.presenceCheck(device), Expected: c.expectedFunc(device, o.memory),
		}, h)
	}
	return part{close: p.close}, nil
}

// openApplications opens the inventory of which application holds which objects, and the tracer, which adds the events
// of applications.
func (o *partOpener) openApplications() (part, error) {
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
	t := o.config.newTracerService(o.programs, holders, o.request, o.startLimiter, o.log)
	if t != nil {
		o.tracer = t
		o.monitor.Discovery = wakingDiscovery{o.monitor.Discovery, t.wake}
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
			i.Add(holders.Points(now, t.workerStatus())...)
		},
	}, nil
}

// openNetwork opens the sources of facts about the network devices of the ports: the legs of bonds, and which network
// devices carry the default route. Simulated ports have no network devices.
func (o *partOpener) openNetwork() (part, error) {
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

// openReleases opens the releases of devices, and the socket for the commands `rdma-events release` and `resume`.
func (o *partOpener) openReleases() (part, error) {
	r := o.config.openReleases(o.statusDir, o.log)
	o.monitor.Released = r.isReleased
	r.listen(o.statusDir)
	return part{run: r.run, outlivesWorkers: true, close: r.close}, nil
}

// openMemory connects the memory of the devices that this host has had to the monitor.
func (o *partOpener) openMemory() (part, error) {
	m, begun := o.memory, time.Now()
	o.monitor.Memory = m
	if !m.IsPersistent() {
		return part{gather: func(i *measure.Interval, _ time.Time) { i.Own.MemorySince = begun }}, nil
	}
	return part{
		run: func(ctx context.Context, watching *monitor.Monitor) {
			m.Run(ctx, func(f memory.Forgotten) { watching.Forget(f.Device, f.Port) }, o.log)
		},
		outlivesWorkers: true,
		gather:          func(*measure.Interval, time.Time) { m.RequestSync() },
	}, nil
}
