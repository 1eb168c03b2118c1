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

	"rdma_events/internal/applications/inventory"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pairs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/telemetry/measure"
)

// WorkerName is the name of the worker program, which is in the directory of this one.
const WorkerName = "rdma-events-worker"

// Watcher watches the devices of the host, and what belongs to them: the fabric, applications, bonds, releases. It consists of the
// monitor of the devices and of the parts that openParts lists. Status and records are made of its points: see points.
type Watcher struct {
	monitor *monitor.Monitor
	parts   []part
	probing *probing // nil without fabric.peers_file
}

// Run is monitor.Monitor.Run. It also waits for the end of all parts.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	serving, over := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	defer over()
	for _, p := range w.parts {
		until := ctx
		if p.outlasts {
			until = serving
		}
		if p.run != nil {
			running.Go(func() { p.run(until, w.monitor) })
		}
	}
	return w.monitor.Run(ctx)
}

// Gather is monitor.Monitor.Gather, with the points of the other parts at the end.
func (w *Watcher) Gather(now time.Time) measure.Interval {
	i := w.monitor.Gather(now)
	for _, p := range w.parts {
		if p.gather != nil {
			p.gather(&i, now)
		}
	}
	return i
}

// Close releases the resources of the parts. It must be called after Run has returned.
func (w *Watcher) Close() error { return closeParts(w.parts) }

// Views returns the pairs of the host's ports with other hosts, nil without fabric.peers_file.
func (w *Watcher) Views() []pairs.View {
	if w.probing == nil {
		return nil
	}
	return w.probing.keeper.Views()
}

func openWatcher(c *Config, d dependencies) (watcher, error) {
	w, err := open(c, d.emit, d.statusDir, c.openMemory(d.log), d.log)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Open acquires the resources of the workers and of the other parts. Run starts them. Points go to emit
// when they happen, see monitor.Config. The caller closes the Watcher.
func Open(c *Config, emit func(measure.Point), log *slog.Logger) (*Watcher, error) {
	return open(c, emit, "", memory.New(time.Now), log)
}

// open is Open for a plugin that keeps its status in a directory, and with what its host remembers.
func open(c *Config, emit func(measure.Point), statusDir string, remembered *memory.Memory, log *slog.Logger) (*Watcher, error) {
	request := c.Request()
	found, err := c.newDiscovery(request, log)
	if err != nil {
		return nil, err
	}
	m, err := c.monitorConfig(found, emit, log)
	if err != nil {
		return nil, err
	}
	if confine.Landlock() == 0 {
		log.Debug("this kernel has no Landlock, or forbids it: a worker can open all files that its user may (docs/explanation/security.md)")
	}
	o := opening{
		config: c, request: request, emit: emit, statusDir: statusDir, memory: remembered, log: log, monitor: &m, starts: process.NewStarts(),
	}
	parts, err := o.openParts()
	if err != nil {
		return nil, err
	}
	return &Watcher{monitor: monitor.New(m), parts: parts, probing: o.probing}, nil
}

// Check validates the configuration, and the scenario of the simulator and the programs
// to which it refers. It starts no process. The error is one line.
func (c *Config) Check() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if _, err := c.newDiscovery(c.Request(), slog.New(slog.DiscardHandler)); err != nil {
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
	return errors.Join(err, exe.Close(), closeFile(tracer))
}

// newDiscovery makes the discovery of the devices of a backend.
func (c *Config) newDiscovery(r verbs.Request, log *slog.Logger) (verbs.Discovery, error) {
	row, ok := findBackend(c.Backend)
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
	if row, ok := findBackend(c.Backend); ok {
		return row.Reads(r)
	}
	return nil
}

// monitorConfig returns the configuration of the monitor, without NewSupervisor.
func (c *Config) monitorConfig(found verbs.Discovery, emit func(measure.Point), log *slog.Logger) (monitor.Config, error) {
	wants, err := c.Wants()
	m := monitor.Config{
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
	}
	if !c.Simulated() {
		m.LibrariesChanged = watchFile("/etc/ld.so.cache") // ldconfig(8) writes it whenever a package brings a library
	}
	return m, err
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

// newInventory makes what keeps the picture of who holds the devices' objects, nil without
// applications.objects and applications.events.
func (c *ApplicationsConfig) newInventory(backend string, r verbs.Request, emit func(measure.Point)) (*inventory.Keeper, error) {
	row, ok := findBackend(backend)
	if !ok || !c.Objects && !c.Events {
		return nil, nil
	}
	process, err := row.Process(r)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, backend, err)
	}
	return inventory.NewKeeper(inventory.Config{
		Options: inventory.Options{By: c.By, MaxSeries: c.MaxSeries, Events: c.Events}, Process: process, Now: time.Now, Mono: clock.Monotonic, Emit: emit,
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

var _ watcher = (*Watcher)(nil)
