package rdma_events

import (
	"context"
	_ "embed"
	"log/slog"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs"

	"rdma_events/internal/clock"
	"rdma_events/internal/emit"
	"rdma_events/internal/measure"
)

//go:generate go run ./metricsdoc ../../../docs/metrics.md
//go:generate go run ./driversdoc ../../..
//go:generate go run ./fabricdoc ../../../docs/fabric.md

//go:embed sample.conf
var sampleConfig string

// Plugin is the input plugin, a telegraf.ServiceInput. Telegraf calls Init,
// Start, Gather and Stop in this order and never two at a time. After Stop it
// cannot be started again.
type Plugin struct {
	Config

	Log telegraf.Logger `toml:"-"`

	// Interrupt makes a call of the accumulator return that blocks because Telegraf does
	// not read. Stop calls it when everything is emitted or its time is up. Nil: the
	// accumulator never blocks for long.
	Interrupt func() `toml:"-"`

	// Version is that of the program, and StatusDir the directory where the status of each interval is kept for other
	// programs of the host (package statusfile); "" keeps none.
	Version   string `toml:"-"`
	StatusDir string `toml:"-"`

	open  func(*Config, dependencies) (watcher, error)
	now   func() time.Time
	start int64 // CLOCK_BOOTTIME ns

	emitter  *emit.Emitter
	watcher  watcher
	watching running
	emitting running
	status   statusKeeper
	records  recordKeeper
}

// watcher monitors all devices.
type watcher interface {
	// Run blocks until ctx is done and all workers are gone.
	Run(ctx context.Context) error
	// Gather returns the points of one interval. It does not block.
	Gather(now time.Time) ([]measure.Point, *measure.Collector)
	// Close releases the resources of Run. It is called after Run has returned.
	Close() error
}

// dependencies are the values that a watcher gets from the plugin.
type dependencies struct {
	emit      func(measure.Point)
	log       *slog.Logger
	statusDir string // Plugin.StatusDir
}

// running is a goroutine of the plugin.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func run(f func(context.Context)) running {
	ctx, cancel := context.WithCancel(context.Background())
	r := running{cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		f(ctx)
	}()
	return r
}

// stop ends the goroutine. Otherwise it is like ended.
func (r *running) stop(ctx context.Context) bool {
	r.cancel()
	return r.ended(ctx)
}

// ended waits until the goroutine has ended, or ctx is done, and reports which.
func (r *running) ended(ctx context.Context) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// New returns a plugin with the default configuration.
func New() *Plugin {
	return &Plugin{Config: DefaultConfig(), open: openWatcher, now: time.Now}
}

// SampleConfig returns the documented configuration with all defaults.
func (*Plugin) SampleConfig() string { return sampleConfig }

// Init checks the configuration and acquires nothing.
func (p *Plugin) Init() error { return p.validate() }

// Start opens the worker program and begins to watch. It does not block, except for at most
// two seconds while the file of fabric.peers_file is being written, and adds nothing to acc
// itself, because Telegraf's shim does not read yet.
func (p *Plugin) Start(acc telegraf.Accumulator) error {
	p.start = clock.Boot()
	p.emitter = emit.New(p.MaxEventPoints, p.now)
	log := newLogger(p.Log)
	p.records.start(&p.Recorder, p.Version, p.now, log)
	w, err := p.open(&p.Config, dependencies{p.status.emit(p.records.emit(p.emitter.Emit)), p.records.log(log), p.StatusDir})
	if err != nil {
		p.records.stop(context.Background()) // it takes 200 ms at most
		return err
	}
	p.records.announce(log)
	p.watcher = w
	p.emitting = run(func(ctx context.Context) { p.emitter.Run(ctx, emit.Lines(acc)) })
	p.watching = run(func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			p.Log.Errorf("Watching RDMA devices ended: %v", err)
		}
	})
	p.status.start(p.StatusDir, p.Version, p.now, log)
	return nil
}

// Gather queues the metrics of the interval that ends now. They go to the accumulator
// that was passed to Start, after the points that happened before. Gather never waits for
// Telegraf to read. While the previous interval is still unread it gathers nothing, and
// the next interval covers both.
func (p *Plugin) Gather(telegraf.Accumulator) error {
	if !p.emitter.Ready() {
		return nil
	}
	now := p.now()
	points, own := p.watcher.Gather(now)
	own.Queue, own.Usage = p.emitter.Queue(), usage(p.start)
	p.records.interval(points, own)
	points = append(points, own)
	p.status.keep(points, now)
	p.emitter.Interval(points)
	return nil
}

// Stop ends watching, emits the queued points and waits for the plugin's goroutines,
// within five sixths of shutdown_timeout. In the remaining time Telegraf reads the emitted
// points. Stop counts and logs the points that cannot be emitted by then.
func (p *Plugin) Stop() {
	if p.watcher == nil {
		return
	}
	limit := time.Duration(p.ShutdownTimeout) * 5 / 6
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.stopWatching(ctx, limit)
	p.records.cancel() // it writes while the last points are emitted
	p.stopEmitting(ctx)
	p.records.stop(ctx)
	p.status.stop(ctx)
	if points, events := p.emitter.Left(); points > 0 {
		p.Log.Warnf("Stopping: Telegraf did not read within %s; %d points with %d events are lost", limit, points, events)
	}
}

// stopWatching leaves a tenth of the limit to stopEmitting. Workers that still exist then
// are left to the kernel.
func (p *Plugin) stopWatching(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit*9/10)
	defer cancel()
	if !p.watching.stop(ctx) {
		p.Log.Errorf("Stopping: workers are still there after %s and are left to the kernel", limit*9/10)
		return
	}
	if err := p.watcher.Close(); err != nil {
		p.Log.Warnf("Stopping: %v", err)
	}
}

// stopEmitting returns once no goroutine of the plugin can call the accumulator any more.
func (p *Plugin) stopEmitting(ctx context.Context) {
	p.emitter.Close()
	p.emitting.ended(ctx)
	p.emitting.cancel()
	if p.Interrupt != nil {
		p.Interrupt()
	}
	<-p.emitting.done
}

func init() {
	inputs.Add("rdma_events", func() telegraf.Input { return New() })
}

var _ telegraf.ServiceInput = (*Plugin)(nil)
var _ telegraf.Initializer = (*Plugin)(nil)
