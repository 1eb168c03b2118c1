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

// WorkerName is the file name of the worker program. By default the program is in the same directory as the running
// one.
const WorkerName = "rdma-events-worker"

// Watcher watches the devices of the host, the fabric, applications, bonds and releases. It consists of the monitor of
// the devices and of the parts that openParts lists. The pipeline derives status and records from its points.
type Watcher struct {
	monitor *monitor.Monitor
	parts   []part
	fabric  *fabricService // nil without fabric.peers_file
}

// Run runs the monitor and all parts until ctx is done. It returns after all of them have ended.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	serving, over := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	defer over()
	for _, p := range w.parts {
		until := ctx
		if p.outlivesWorkers {
			until = serving
		}
		if p.run != nil {
			running.Go(func() { p.run(until, w.monitor) })
		}
	}
	return w.monitor.Run(ctx)
}

// Gather returns the points of the interval that ends now: the monitor's, followed by the parts'.
func (w *Watcher) Gather(now time.Time) measure.Interval {
	i := w.monitor.Gather(now)
	for _, p := range w.parts {
		if p.gather != nil {
			p.gather(&i, now)
		}
	}
	return i
}

// Close releases the resources of the parts. Call it after Run has returned.
func (w *Watcher) Close() error { return closeParts(w.parts) }

// PairViews returns the current state of all pairs of local ports and remote hosts. It returns nil without
// fabric.peers_file.
func (w *Watcher) PairViews() []pairs.View {
	if w.fabric == nil {
		return nil
	}
	return w.fabric.keeper.Views()
}

func openWatcher(c *Config, d dependencies) (watcher, error) {
	w, err := openWithMemory(c, d.emit, d.statusDir, c.openMemory(d.log), d.log)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Open acquires the resources of the workers and of the other parts. Run starts them. emit receives each point when it
// happens (see monitor.Config). The caller must close the Watcher.
func Open(c *Config, emit func(measure.Point), log *slog.Logger) (*Watcher, error) {
	return openWithMemory(c, emit, "", memory.New(time.Now), log)
}

// openWithMemory is Open with two more arguments: the directory of the status file, and the devices that this host
// remembers.
func openWithMemory(c *Config, emit func(measure.Point), statusDir string, remembered *memory.Memory, log *slog.Logger) (*Watcher, error) {
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
		log.Debug("Landlock is unavailable: a worker can open every file that its user can open (docs/explanation/security.md)")
	}
	o := partOpener{
		config: c, request: request, emit: emit, statusDir: statusDir, memory: remembered, log: log, monitor: &m, startLimiter: process.NewStarts(),
	}
	parts, err := o.openParts()
	if err != nil {
		return nil, err
	}
	return &Watcher{monitor: monitor.New(m), parts: parts, fabric: o.fabric}, nil
}

// Check validates the configuration, the scenario of the simulator and the programs and files to which the
// configuration refers. It starts no process. The error is one line.
func (c *Config) Check() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if _, err := c.newDiscovery(c.Request(), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := c.checkFabricFiles(); err != nil {
		return err
	}
	exe, err := c.openWorker()
	if err != nil {
		return err
	}
	tracer, err := c.Applications.openTracer()
	return errors.Join(err, exe.Close(), closeFile(tracer))
}

// newDiscovery returns the discovery of the configured backend.
func (c *Config) newDiscovery(r verbs.Request, log *slog.Logger) (verbs.Discovery, error) {
	row, ok := findBackend(c.Backend)
	if !ok {
		return nil, fmt.Errorf("%s: backend = %q is not allowed", table, c.Backend)
	}
	found, err := row.NewDiscovery(r, func(err error) { log.Warn(err.Error()) })
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, c.Backend, err)
	}
	return found, nil
}

// Request returns the part of the request that is the same for all workers. The timeline of a simulation starts when
// Request is called, and is the same in all processes.
func (c *Config) Request() verbs.Request {
	r := verbs.Request{Backend: c.Backend}
	if c.Simulated() {
		r.Sim = verbs.Simulation{
			Profile: c.Sim.Profile, Scenario: c.Sim.absoluteScenario(), Seed: c.Sim.Seed, Epoch: clock.Monotonic(),
		}
	}
	return r
}

// WorkerFiles returns the files, apart from libraries, that a worker must read to serve the request.
func (c *Config) WorkerFiles(r verbs.Request) []string {
	if row, ok := findBackend(c.Backend); ok {
		return row.WorkerFiles(r)
	}
	return nil
}

// monitorConfig returns the configuration of the monitor, without NewSupervisor.
func (c *Config) monitorConfig(found verbs.Discovery, emit func(measure.Point), log *slog.Logger) (monitor.Config, error) {
	wants, err := c.DeviceFilter()
	m := monitor.Config{
		Discovery:        loggingDiscovery{found, log},
		Emit:             emit,
		Now:              readClocks,
		Devices:          wants,
		VirtualFunctions: c.WatchedFunctions(),
		Ports:            c.WatchesPort,
		Expect:           c.ExpectedNames(),
		Groups:           c.ExpectedGroups(),
		Configured:       c.expectationFunc(),
		ExpectedDown:     c.ExpectsDown,
		Role:             c.Roles.Role,
		Window:           time.Duration(c.Probe.Window),
		CommandStuck:     c.Evidence.stuckAfter(),
		Evidence:         c.Evidence.SnapshotInterval > 0,
		Histogram:        c.Probe.Histogram,
		Stages:           c.Probe.Stages,
		Function:         sysfs.New("/sys").PCIFunction,
		PCILink:          sysfs.New("/sys").PCILink,
		RSS:              process.Resident,
		Log:              log,
	}
	if !c.Simulated() {
		m.LibrariesChanged = newFileChangeDetector("/etc/ld.so.cache") // ldconfig(8) rewrites it when a package installs a library
	}
	return m, err
}

// Simulated reports whether the backend is the simulator.
func (c *Config) Simulated() bool { return c.Backend == verbs.BackendSim }

// ExpectsDown reports whether expected_down lists the port.
func (c *Config) ExpectsDown(device string, port int) bool {
	return slices.Contains(portsOf(c.ExpectedDown, device), port)
}

// SelectDevices makes the configuration select the devices that match globs instead of those in the option devices. It drops the ports of
// other devices, and the options that require devices to be present. If a glob is invalid, Check returns an error.
func (c *Config) SelectDevices(globs []string) {
	c.Devices, c.Expect, c.Expected = globs, nil, nil
	if selected, err := compileGlobs(globs); err == nil {
		c.Ports = slices.DeleteFunc(slices.Clone(c.Ports), func(text string) bool {
			device, _, ok := splitPort(text)
			return ok && !selected.Match(device)
		})
	}
}

// DeviceFilter returns a function that reports whether the configuration selects a device: the globs match its name
// and, if the option ports is set, at least one of its ports is listed. The error is about an invalid glob. Check
// returns the same error.
func (c *Config) DeviceFilter() (func(device string) bool, error) {
	passes, err := c.globFilter()
	return func(device string) bool {
		return passes(device) && (len(c.Ports) == 0 || len(portsOf(c.Ports, device)) > 0)
	}, err
}

// globFilter returns the filter of devices and devices_exclude, without the option ports.
func (c *Config) globFilter() (func(device string) bool, error) {
	include, err := compileGlobs(c.Devices)
	if err != nil {
		return nil, fmt.Errorf("%s: devices: %w", table, err)
	}
	exclude, err := compileGlobs(c.DevicesExclude)
	if err != nil {
		return nil, fmt.Errorf("%s: devices_exclude: %w", table, err)
	}
	return func(device string) bool {
		return (len(include) == 0 || include.Match(device)) && !exclude.Match(device)
	}, nil
}

// WatchesPort reports whether the configuration selects a port of a watched device. uplink is verbs.DeviceAttr.Uplink.
func (c *Config) WatchesPort(device string, port, uplink int) bool {
	if len(c.Ports) == 0 {
		return verbs.IsWatchedByDefault(port, uplink)
	}
	return slices.Contains(portsOf(c.Ports, device), port)
}

// portsOf returns the ports of one device in a list of "device:port" entries, without duplicates.
func portsOf(list []string, device string) []int {
	var ports []int
	for _, text := range list {
		if name, port, ok := splitPort(text); ok && name == device && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// workerRequest returns the request for the worker of one device. all is the result of Request.
func (c *Config) workerRequest(device string, all verbs.Request) verbs.Request {
	ethtool, _ := verbs.ParseEthtool(c.Evidence.Ethtool) // Validate accepts no other value
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
		Probe:            c.Probe.probeOptions(),
		Fabric:           c.fabricRequest(device),
	}
	return all
}

// newInventory returns the keeper of the inventory, which tracks which application holds which objects of the devices.
// It returns nil if both applications.objects and applications.events are off.
func (c *ApplicationsConfig) newInventory(backend string, r verbs.Request, emit func(measure.Point)) (*inventory.Keeper, error) {
	row, ok := findBackend(backend)
	if !ok || !c.Objects && !c.Events {
		return nil, nil
	}
	process, err := row.ProcessLookup(r)
	if err != nil {
		return nil, fmt.Errorf("%s.%s: %w", table, backend, err)
	}
	return inventory.NewKeeper(inventory.Config{
		Options: inventory.Options{By: c.By, MaxSeries: c.MaxSeries, Events: c.Events}, Process: process, Now: time.Now, Mono: clock.Monotonic, Emit: emit,
	})
}

// stuckAfter returns the time after which a command counts as stuck. It returns 0 if commands are not watched.
func (c *EvidenceConfig) stuckAfter() time.Duration {
	if c.CommandInterval == 0 {
		return 0
	}
	return time.Duration(c.CommandStuck)
}

func (c *ProbeConfig) probeOptions() verbs.ProbeOptions {
	method, _ := verbs.ParseMethod(c.Method) // Validate accepts no other name
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

// presenceCheck returns a function that reports whether the device is still present. It returns nil for simulated
// devices, which sysfs does not show. Once a device has had a node in /dev, it counts as present until the node is
// gone: the kernel removes the node first and only then waits for the last process that has the device open. A device
// that has never had a node may get one when a worker starts, and counts as present.
func (c *Config) presenceCheck(device string) func() bool {
	if c.Simulated() {
		return nil
	}
	return newPresenceCheck(sysfs.New("/sys"), device)
}

func newPresenceCheck(fs sysfs.FS, device string) func() bool {
	had := false
	return func() bool {
		_, err := fs.Node(device)
		had = had || err == nil
		return !had || !errors.Is(err, verbs.ErrNoDevice)
	}
}

// absoluteScenario returns the scenario with an absolute path, because workers run in another directory. A name without
// a dot or a slash is the name of a built-in scenario and stays unchanged.
func (c *SimConfig) absoluteScenario() string {
	if !strings.ContainsAny(c.Scenario, "./") {
		return c.Scenario
	}
	path, err := filepath.Abs(c.Scenario)
	if err != nil {
		return c.Scenario // the working directory is unknown
	}
	return path
}

// processTiming returns the time limits for ending a worker. They let workers end within shutdown_timeout and leave
// time to emit their last events (see Agent.stopWatching).
func (c *Config) processTiming() process.Timing {
	limit := time.Duration(c.ShutdownTimeout)
	return process.Timing{Grace: limit / 2, Kill: limit / 6}
}

// readClocks returns the current times of CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME in ns.
func readClocks() (wall, mono, boot int64) {
	wall, mono = clock.Both()
	return wall, mono, mono + clock.Suspended()
}

var _ watcher = (*Watcher)(nil)
