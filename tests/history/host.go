package history

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	timelines "rdma_events/internal/record/timeline"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// errRenamed is the error of a history with a renamed device: the monitor ends the
// supervision of such a device in another goroutine, which does not follow the clock
// of the history.
var errRenamed = errors.New("a fault of kind renamed cannot be played in a history")

// booted is the CLOCK_MONOTONIC time at which a history begins.
const booted = int64(time.Hour)

// maxEventPoints and the intervals are the plugin's defaults.
const (
	maxEventPoints = 20
	stateInterval  = 5 * time.Second
)

// host is one host that is being simulated.
type host struct {
	cfg    *Config
	of     *Host
	line   timeline
	random *rand.Rand
	world  *devices.World
	opener verbs.Backend
	found  *hotplug.Simulated

	monitor *monitor.Monitor
	tracing *tracing // nil without applications
	emitter *emit.Emitter
	judge   *health.Keeper
	reports *health.Reports
	changes *timelines.Changes
	records measure.Recorder // what a recorder would have written
	out     *Recording
	report  chan func([]verbs.Found) // the report function of the monitor, once
	retries chan retries             // the retries of the monitor, once
	cancel  context.CancelFunc
	done    chan struct{} // closed when the monitor has ended

	lag     int64 // from an event to the handling of it, while that lasts, ns
	keepers []*keeper
	held    *lane // emits the points that max_event_points holds back
	pids    int
	err     error
}

func newHost(c *Config, of *Host, w io.Writer) (*host, error) {
	h := &host{cfg: c, of: of, report: make(chan func([]verbs.Found)), retries: make(chan retries), done: make(chan struct{})}
	h.line = newTimeline(booted, h.flush)
	h.random = rand.New(rand.NewPCG(uint64(of.Seed), nameHash(of.Name)))
	if err := h.load(); err != nil {
		return nil, err
	}
	tags := maps.Clone(of.Tags)
	if of.Name != "" {
		if tags == nil {
			tags = map[string]string{}
		}
		tags["host"] = of.Name
	}
	var err error
	if h.out, err = NewRecording(w, tags); err != nil {
		return nil, err
	}
	h.emitter = emit.New(maxEventPoints, h.wall)
	h.judge, h.reports = health.NewKeeper("history", of.Name), health.NewReports()
	h.changes = timelines.NewChanges(timelines.RegisterDevices, timelines.RegisterFabric, timelines.RegisterApplications, timelines.RegisterUnreadErrors)
	if h.tracing, err = newTracing(h); err != nil {
		return nil, err
	}
	cfg := monitor.Config{
		Discovery: h, NewSupervisor: h.supervisor, Emit: h.emit, Now: h.clocks, Repeat: h.passRetries,
		Expect: of.Expect,
		ExpectedDown: func(device string, port int) bool {
			return slices.Contains(of.ExpectedDown, fmt.Sprintf("%s:%d", device, port))
		},
		Window: c.Window, Histogram: c.Histogram, CommandStuck: commandStuck, Evidence: true,
		Memory: of.Memory,
		RSS:    func(pid int) uint64 { return 14<<20 + uint64(pid%8)<<14 },
	}
	if cfg.Memory == nil {
		cfg.Memory = memory.New(h.wall)
	}
	if h.tracing != nil {
		cfg.Subscribers = []func(monitor.Update){h.tracing.update}
	}
	h.monitor = monitor.New(cfg)
	return h, nil
}

func nameHash(name string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(name)) // a hash returns no error
	return f.Sum64()
}

func (h *host) load() error {
	o := devices.Options{
		Profile: h.of.Profile, Scenario: h.of.Scenario, Timeline: h.of.Timeline,
		// The devices of two hosts are not the same: their random numbers depend on the host.
		Seed: int64(h.random.Uint64() >> 1), Epoch: booted,
		Clock: func() int64 { return h.line.now }, Wait: h.inCall,
		Die: func(s syscall.Signal) { h.die(s) },
	}
	if o.Profile == "" {
		o.Profile = "roce2"
	}
	var err error
	if h.world, err = devices.Load(o); err != nil {
		return err
	}
	h.opener = devices.New(h.world)
	h.found = hotplug.NewSimulated(h.world, o.Clock)
	return nil
}

// mono converts a wall time to CLOCK_MONOTONIC.
func (h *host) mono(at time.Time) int64 { return booted + int64(at.Sub(h.cfg.Start)) }

func (h *host) wall() time.Time {
	return h.cfg.Start.Add(time.Duration(h.line.now + h.lag - booted))
}

func (h *host) clocks() (wall, mono, boot int64) {
	mono = h.line.now + h.lag
	return h.wall().UnixNano(), mono, mono
}

// Run implements verbs.Discovery.
func (h *host) Run(ctx context.Context, report func([]verbs.Found)) error {
	h.report <- report
	<-ctx.Done()
	return ctx.Err()
}

// retries is the function by which the monitor opens devices again, and its interval.
type retries struct {
	interval time.Duration
	retry    func()
}

// passRetries is the Repeat of the monitor. It leaves the calls to retryDevices, which runs in a lane.
func (h *host) passRetries(ctx context.Context, interval time.Duration, retry func()) {
	h.retries <- retries{interval, retry}
	<-ctx.Done()
}

func (h *host) retryDevices(r retries) {
	for h.line.wait(h.line.now + int64(r.interval)) {
		r.retry()
		h.settle()
	}
}

// begin starts the monitor and the lanes that every host has.
func (h *host) begin() {
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(h.done)
		_ = h.monitor.Run(ctx) // only discovery fails, and this one does not
	}()
	report, retries := <-h.report, <-h.retries
	h.held = h.line.start(never, func() {
		for h.line.wait(never) { //revive:disable-line:empty-block flush follows each step
		}
	})
	h.line.start(h.line.now, func() { h.discover(report) })
	h.line.start(h.line.now, func() { h.retryDevices(retries) })
	h.line.start(h.line.now, h.gather)
	if h.tracing != nil {
		h.tracing.begin()
	}
}

// discover reports the devices to the monitor.
func (h *host) discover(report func([]verbs.Found)) {
	for first := true; ; first = false {
		if found, changed := h.found.Scan(h.line.now); first || changed {
			if h.tracing != nil {
				h.tracing.discovered(found)
			}
			report(found)
			h.settle()
		}
		next, ok := h.world.NextChange(h.line.now)
		if !ok {
			next = never
		}
		if !h.line.wait(next) {
			return
		}
	}
}

// settle waits until the supervisors that report has started in other goroutines
// have called Run.
func (h *host) settle() {
	for _, k := range h.keepers {
		<-k.begun
		if k.ctx.Err() != nil {
			h.err = errRenamed
		}
	}
}

func (h *host) supervisor(device string, handler *monitor.Device) monitor.Supervisor {
	k := newKeeper(h, device, handler)
	h.keepers = append(h.keepers, k)
	return k
}

// gather gathers when Telegraf makes a plugin gather: at the multiples of the
// interval.
func (h *host) gather() {
	at := h.cfg.Start.Truncate(h.cfg.Interval)
	for {
		at = at.Add(h.cfg.Interval)
		// From Telegraf's tick to the plugin's reading of the clock.
		late := h.draw(300 * time.Microsecond)
		if h.cfg.Exact {
			late = 0
		}
		if !h.line.wait(h.mono(at) + late) {
			return
		}
		i := h.monitor.Gather(h.wall())
		i.Own.Queue, i.Own.Usage = h.emitter.Queue(), h.usage()
		records := h.records
		i.Own.Recorder = &records
		h.tracing.gather(&i)
		points := append(i.Points, i.Own)
		now := h.wall()
		problems := h.judge.Observe(points, now).Problems
		h.emitter.EmitInterval(points) // the emitter owns the points from now on
		for _, p := range h.reports.Points(problems, now) {
			h.emitter.Emit(p)
		}
	}
}

// emit counts a point that would be recorded, and passes it on.
func (h *host) emit(p measure.Point) {
	if _, ok := h.changes.RecordOf(p, nil); ok {
		h.records.Recorded++
	}
	h.emitter.Emit(p)
}

// usage returns invented values: there is no process.
func (h *host) usage() measure.Usage {
	up := h.line.now - booted
	return measure.Usage{Uptime: up, CPU: up / 300, RSS: 13<<20 + h.random.Int64N(1<<18)}
}

// draw returns a duration around a median, ns, that is sometimes far longer.
func (h *host) draw(median time.Duration) int64 {
	return int64(float64(median) * math.Exp(0.4*h.random.NormFloat64()))
}

func (h *host) flush() {
	wait := h.emitter.Drain(emit.Lines(h.out))
	if h.out.err != nil {
		h.err = h.out.err
	}
	if wait >= 0 {
		h.line.rouse(h.held, h.line.now+int64(wait))
	}
}

// deliver hands a worker's items over to the monitor.
func (h *host) deliver(k *keeper, items ...verbs.Item) {
	wall, mono, _ := h.clocks()
	h.lag = h.draw(150 * time.Microsecond)
	k.handler.Batch(verbs.Batch{Wall: wall, Mono: mono, Items: k.takeRings(items)}, k.status)
	h.lag = 0
}

// close ends all lanes and goroutines without further reports to the monitor.
func (h *host) close() {
	h.line.close()
	for _, k := range h.keepers {
		close(k.left)
	}
	h.cancel()
	<-h.done
}
