package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"rdma_events/internal/apps"
	"rdma_events/internal/backends"
	"rdma_events/internal/bonds"
	"rdma_events/internal/clock"
	"rdma_events/internal/confine"
	"rdma_events/internal/measure"
	"rdma_events/internal/memory"
	"rdma_events/internal/monitor"
	"rdma_events/internal/process"
	"rdma_events/internal/routes"
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sysfs"
	"rdma_events/internal/worker"
)

// WorkerName is the name of the worker program, which is in the directory of this one.
const WorkerName = "rdma-events-worker"

// Devices monitors all devices that a configuration wants. It has a monitor, and the
// programs of its workers and of its tracer.
type Devices struct {
	monitor  *monitor.Monitor
	apps     *apps.Keeper // nil without applications.objects and applications.events
	tracing  *tracing     // nil: applications are not traced
	probing  *probing     // nil without fabric.peers_file
	programs *programs
	bonds    *bonds.Table // nil: the devices are simulated
	warn     func(error)
	releases *releases
	memory   *memory.Memory
	started  time.Time
	log      *slog.Logger
}

// Run is monitor.Monitor.Run. It also waits for the end of the tracer.
func (d *Devices) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	if d.apps != nil {
		wg.Go(func() { d.apps.Run(ctx) })
	}
	if d.tracing != nil {
		wg.Go(func() { d.tracing.run(ctx) })
	}
	if d.probing != nil {
		wg.Go(func() { d.probing.run(ctx) })
	}
	if d.bonds != nil {
		wg.Go(func() { d.bonds.Run(ctx, d.monitor.LegsChanged, d.warn) })
	}
	serving, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	wg.Go(func() { d.releases.run(serving) })
	if d.memory.Kept() {
		wg.Go(func() { d.memory.Run(serving, func(f memory.Forgotten) { d.monitor.Forget(f.Device, f.Port) }, d.log) })
	}
	return d.monitor.Run(ctx)
}

// Gather is monitor.Monitor.Gather, with the points of probes between hosts and of applications at the end.
func (d *Devices) Gather(now time.Time) ([]measure.Point, *measure.Collector) {
	points, own := d.monitor.Gather(now)
	if d.memory.Kept() {
		d.memory.Look()
	} else {
		own.MemorySince = d.started
	}
	points = d.probing.points(points, now)
	if d.apps == nil {
		return points, own
	}
	for _, p := range points {
		if h, ok := p.(*measure.Host); ok {
			h.Apps = d.apps.Host()
		}
	}
	return append(points, d.apps.Points(now, d.tracing.worker())...), own
}

// Close releases the resources of the workers and of the tracer. It must be called after
// Run has returned.
func (d *Devices) Close() error {
	return errors.Join(d.programs.close(), d.probing.close(), d.releases.close())
}

func openWatcher(c *Config, d dependencies) (watcher, error) {
	w, err := open(c, d.emit, d.statusDir, c.openMemory(d.log), d.log)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Open acquires the resources of the workers and of the tracer. Run starts them. Points go to emit
// when they happen, see monitor.Config. The caller closes the Devices.
func Open(c *Config, emit func(measure.Point), log *slog.Logger) (*Devices, error) {
	return open(c, emit, "", memory.New(time.Now), log)
}

// open is Open for a plugin that keeps its status in a directory, and with what its host remembers.
func open(c *Config, emit func(measure.Point), statusDir string, remembered *memory.Memory, log *slog.Logger) (*Devices, error) {
	request := c.Request()
	found, err := c.discovery(request, log)
	if err != nil {
		return nil, err
	}
	m, err := c.monitoring(found, emit, log)
	if err != nil {
		return nil, err
	}
	holders, err := c.Applications.keeper(c.Backend, request, emit)
	if err != nil {
		return nil, err
	}
	if holders != nil {
		m.Objects = func(device string, o *verbs.Objects) {
			if o == nil {
				holders.Forget(device)
			} else {
				holders.See(device, o)
			}
		}
	}
	if confine.Landlock() == 0 {
		log.Debug("this kernel has no Landlock, or forbids it: a worker can open all files that its user may (docs/security.md)")
	}
	probes, err := c.openProbing(request, emit, log)
	if err != nil {
		return nil, err
	}
	if probes != nil {
		m.Fabric = probes.keeper
	}
	p, err := c.openPrograms()
	if err != nil {
		return nil, errors.Join(err, probes.close())
	}
	starts := process.NewStarts()
	m.NewSupervisor = func(device string, h *monitor.Device) monitor.Supervisor {
		return worker.New(worker.Config{
			Exe: p.worker, Dir: p.dir, Request: c.request(device, request), Reads: c.Reads(request), Timing: c.timing(), Starts: starts, Log: log,
			Orders: probes.of(device), Present: c.present(device), Expected: slices.Contains(c.ExpectedNames(), device),
		}, h)
	}
	var legs *bonds.Table
	if !c.Simulated() {
		legs = &bonds.Table{}
		m.Legs = legs.Legs
		m.CarriesDefaultRoute = routes.Table{}.CarriesDefault
		m.LibrariesChanged = watchFile("/etc/ld.so.cache") // ldconfig(8) writes it whenever a package brings a library
	}
	r := c.openReleases(statusDir, log)
	m.Released = r.released
	t := c.tracing(p, holders, request, starts, log)
	if t != nil {
		m.Discovery = waking{m.Discovery, t.wake}
	}
	m.Memory = remembered
	r.monitor = monitor.New(m)
	r.listen(statusDir)
	return &Devices{
		monitor: r.monitor, apps: holders, tracing: t, probing: probes, programs: p, releases: r,
		bonds: legs, warn: func(err error) { log.Warn(err.Error()) }, memory: remembered, started: time.Now(), log: log,
	}, nil
}

// Check validates the configuration, and the scenario of the simulator and the programs
// to which it refers. It starts no process. The error is one line.
func (c *Config) Check() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if _, err := c.discovery(c.Request(), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := c.checkProbing(); err != nil {
		return err
	}
	exe, err := c.openWorker()
	if err != nil {
		return err
	}
	tracer, err := c.Applications.openTracer()
	return errors.Join(err, exe.Close(), closed(tracer))
}

// discovery returns the discovery of the devices of a backend.
func (c *Config) discovery(r verbs.Request, log *slog.Logger) (verbs.Discovery, error) {
	row, ok := backends.Find(c.Backend)
	if !ok {
		return nil, fmt.Errorf("%s: backend = %q is not allowed", table, c.Backend)
	}
	found, err := row.Discover(r, func(err error) { log.Warn(err.Error()) })
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, c.Backend, err)
	}
	return found, nil
}

// Request returns what all workers are asked for. The timeline of a simulation begins
// now, and is the same in all processes.
func (c *Config) Request() verbs.Request {
	r := verbs.Request{Backend: c.Backend}
	if c.Simulated() {
		r.Sim = verbs.Simulation{
			Profile: c.Sim.Profile, Scenario: c.Sim.timeline(), Seed: c.Sim.Seed, Epoch: clock.Monotonic(),
		}
	}
	return r
}

// Reads returns the files, besides libraries, that a worker reads for a request.
func (c *Config) Reads(r verbs.Request) []string {
	if row, ok := backends.Find(c.Backend); ok {
		return row.Reads(r)
	}
	return nil
}

// monitoring returns the configuration of the monitor, without NewSupervisor.
func (c *Config) monitoring(found verbs.Discovery, emit func(measure.Point), log *slog.Logger) (monitor.Config, error) {
	wants, err := c.Wants()
	return monitor.Config{
		Discovery:        listening{found, log},
		Emit:             emit,
		Now:              clocks,
		Devices:          wants,
		VirtualFunctions: c.Functions(),
		Ports:            c.WatchesPort,
		Expect:           c.ExpectedNames(),
		Groups:           c.ExpectedGroups(),
		Configured:       c.configured(),
		ExpectedDown:     c.ExpectsDown,
		Role:             c.Roles.Role,
		Window:           time.Duration(c.Probe.Window),
		CommandStuck:     c.Evidence.stuck(),
		Evidence:         c.Evidence.SnapshotInterval > 0,
		Histogram:        c.Probe.Histogram,
		Stages:           c.Probe.Stages,
		Function:         sysfs.New("/sys").PCIFunction,
		PCILink:          sysfs.New("/sys").PCILink,
		RSS:              process.Resident,
		Log:              log,
	}, err
}

// Simulated reports whether the devices are the simulator's.
func (c *Config) Simulated() bool { return c.Backend == verbs.BackendSim }

// ExpectsDown reports whether a port is down by design.
func (c *Config) ExpectsDown(device string, port int) bool {
	return slices.Contains(portsOf(c.ExpectedDown, device), port)
}

// Wants returns a function that reports whether the globs match a device and, if ports
// are named, one of them is the device's. The error is that of a glob, which Check finds
// too.
func (c *Config) Wants() (func(device string) bool, error) {
	passes, err := c.passes()
	return func(device string) bool {
		return passes(device) && (len(c.Ports) == 0 || len(portsOf(c.Ports, device)) > 0)
	}, err
}

// passes is Wants for the globs alone.
func (c *Config) passes() (func(device string) bool, error) {
	include, err := compile(c.Devices)
	if err != nil {
		return nil, fmt.Errorf("%s: devices: %w", table, err)
	}
	exclude, err := compile(c.DevicesExclude)
	if err != nil {
		return nil, fmt.Errorf("%s: devices_exclude: %w", table, err)
	}
	return func(device string) bool {
		return (len(include) == 0 || include.Match(device)) && !exclude.Match(device)
	}, nil
}

// WatchesPort reports whether a port of a watched device is watched.
func (c *Config) WatchesPort(device string, port int) bool {
	if len(c.Ports) == 0 {
		return port <= verbs.MaxPorts
	}
	return slices.Contains(portsOf(c.Ports, device), port)
}

// portsOf returns the ports of a device in a list of "device:port". It returns each port
// once, however often the list names it.
func portsOf(list []string, device string) []int {
	var ports []int
	for _, text := range list {
		if name, port, ok := splitPort(text); ok && name == device && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// request returns the request to the worker of a device.
func (c *Config) request(device string, all verbs.Request) verbs.Request {
	ethtool, _ := verbs.ParseEthtool(c.Evidence.Ethtool) // Check has refused other words
	all.Options = verbs.Options{
		Device:           device,
		Ports:            portsOf(c.Ports, device),
		StateInterval:    time.Duration(c.StateInterval),
		GIDInterval:      time.Duration(c.Evidence.GIDInterval),
		CommandInterval:  time.Duration(c.Evidence.CommandInterval),
		CommandStuck:     time.Duration(c.Evidence.CommandStuck),
		SnapshotInterval: time.Duration(c.Evidence.SnapshotInterval),
		Ethtool:          ethtool,
		Objects:          c.Applications.Objects,
		Probe:            c.Probe.request(),
		Fabric:           c.fabricRequest(device),
	}
	return all
}

// keeper returns what keeps the picture of who holds the devices' objects, nil without
// applications.objects and applications.events.
func (c *ApplicationsConfig) keeper(backend string, r verbs.Request, emit func(measure.Point)) (*apps.Keeper, error) {
	row, ok := backends.Find(backend)
	if !ok || !c.Objects && !c.Events {
		return nil, nil
	}
	process, err := row.Process(r)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, backend, err)
	}
	return apps.NewKeeper(apps.Config{
		Options: apps.Options{By: c.By, MaxSeries: c.MaxSeries, Events: c.Events}, Process: process, Now: time.Now, Mono: clock.Monotonic, Emit: emit,
	})
}

// stuck returns how long a command may last; 0 where none is watched.
func (c *EvidenceConfig) stuck() time.Duration {
	if c.CommandInterval == 0 {
		return 0
	}
	return time.Duration(c.CommandStuck)
}

func (c *ProbeConfig) request() verbs.ProbeOptions {
	method, _ := verbs.ParseMethod(c.Method) // Check has refused other names
	o := verbs.ProbeOptions{
		Timeout:   time.Duration(c.Timeout),
		Method:    method,
		Vectors:   c.Vectors,
		AckBatch:  c.AckBatch,
		GIDIndex:  c.GIDIndex,
		PKeyIndex: c.PKeyIndex,
	}
	if c.probing() {
		o.Interval = time.Duration(c.Interval)
	}
	return o
}

// present returns a function that reports whether a device is there, nil if sysfs does not show that. A device that has had a
// node is there until it has none: the kernel removes the node first, before it waits for the last process that has the device
// open. A device that has never had one may get it when a worker starts.
func (c *Config) present(device string) func() bool {
	if c.Simulated() {
		return nil
	}
	return presence(sysfs.New("/sys"), device)
}

func presence(fs sysfs.FS, device string) func() bool {
	had := false
	return func() bool {
		_, err := fs.Node(device)
		had = had || err == nil
		return !had || !errors.Is(err, verbs.ErrNoDevice)
	}
}

// timeline returns the scenario with an absolute path, since workers run in another
// directory. A name without a dot or slash is that of a built-in scenario.
func (c *SimConfig) timeline() string {
	if !strings.ContainsAny(c.Scenario, "./") {
		return c.Scenario
	}
	path, err := filepath.Abs(c.Scenario)
	if err != nil {
		return c.Scenario // without a working directory only the configured path is left
	}
	return path
}

// timing makes workers end within shutdown_timeout, and leaves time to emit their last
// events; see Plugin.stopWatching.
func (c *Config) timing() process.Timing {
	limit := time.Duration(c.ShutdownTimeout)
	return process.Timing{Grace: limit / 2, Kill: limit / 6}
}

func clocks() (wall, mono, boot int64) {
	wall, mono = clock.Both()
	return wall, mono, clock.Boot()
}

var _ watcher = (*Devices)(nil)
