package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// Agent watches the RDMA devices of this host and emits points, until it is stopped. Its methods must not be called
// concurrently, and it cannot be started again.
type Agent struct {
	config  *Config
	options Options
	open    func(*Config, dependencies) (watcher, error)
	now     func() time.Time
	start   int64 // CLOCK_BOOTTIME ns

	points   points
	watcher  watcher
	watching running
	emitting running
	status   statusKeeper
	records  recordKeeper
}

// Options are what an Agent gets from its program.
type Options struct {
	Log     *slog.Logger
	Version string // of the program
	// StatusDir is the directory where the status of each interval is kept for other programs of the host (package
	// statusfile); "" keeps none.
	StatusDir string
}

// watcher is what an Agent uses of Devices.
type watcher interface {
	// Run blocks until ctx is done and all workers are gone.
	Run(ctx context.Context) error
	// Gather returns the points of one interval. It does not block.
	Gather(now time.Time) measure.Interval
	// Close releases the resources of Run. It is called after Run has returned.
	Close() error
}

// dependencies are the values that a watcher gets from the agent.
type dependencies struct {
	emit      func(measure.Point)
	log       *slog.Logger
	statusDir string // Options.StatusDir
}

// running is a goroutine of the agent.
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

// stop ends the goroutine. Otherwise it is like awaitEnd.
func (r *running) stop(ctx context.Context) bool {
	r.cancel()
	return r.awaitEnd(ctx)
}

// awaitEnd waits until the goroutine has ended, or ctx is done, and reports which.
func (r *running) awaitEnd(ctx context.Context) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// New returns an Agent. The configuration has been checked by Config.Validate, and must not change any more.
func New(c *Config, o Options) *Agent {
	return &Agent{config: c, options: o, open: openWatcher, now: time.Now}
}

// Start opens the worker program and begins to watch. It does not block, except for at most
// two seconds while the file of fabric.peers_file is being written. It adds nothing to acc
// itself: one goroutine does from now on, and may be blocked by it until Stop.
func (a *Agent) Start(acc emit.Accumulator) error {
	a.start = clock.Boot()
	log := a.options.Log
	a.records.start(&a.config.Recorder, a.options.Version, a.now, log)
	recorded := a.records.log(log)
	a.points = points{
		devices: newAnnouncer(recorded), status: &a.status, records: &a.records, emitter: emit.New(a.config.MaxEventPoints, a.now),
	}
	w, err := a.open(a.config, dependencies{a.points.happened, recorded, a.options.StatusDir})
	if err != nil {
		a.records.stop(context.Background()) // it takes 200 ms at most
		return err
	}
	a.records.announce(log)
	a.watcher = w
	a.emitting = run(func(ctx context.Context) { a.points.emitter.Run(ctx, emit.Lines(acc)) })
	a.watching = run(func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			log.Error(fmt.Sprintf("Watching RDMA devices ended: %v", err))
		}
	})
	a.status.start(a.options.StatusDir, a.options.Version, a.now, log)
	return nil
}

// Gather queues the metrics of the interval that ends now. They go to the accumulator
// that was passed to Start, after the points that happened before. Gather never waits for
// Telegraf to read. While the previous interval is still unread it gathers nothing, and
// the next interval covers both.
func (a *Agent) Gather() {
	if !a.points.emitter.AdmitInterval() {
		return
	}
	now := a.now()
	i := a.watcher.Gather(now)
	i.Own.Queue, i.Own.Usage = a.points.emitter.Queue(), usage(a.start)
	a.points.interval(&i, now)
}

// Stop ends watching, emits the queued points and waits for the agent's goroutines,
// within five sixths of shutdown_timeout. In the remaining time Telegraf reads the emitted
// points. Stop counts and logs the points that cannot be emitted by then. It calls interrupt, unless that is nil, when
// everything is emitted or its time is up, and a call of the accumulator that blocks has to return then.
func (a *Agent) Stop(interrupt func()) {
	if a.watcher == nil {
		return
	}
	limit := time.Duration(a.config.ShutdownTimeout) * 5 / 6
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	a.stopWatching(ctx, limit)
	a.records.cancel() // it writes while the last points are emitted
	a.stopEmitting(ctx, interrupt)
	a.records.stop(ctx)
	a.status.stop(ctx)
	if points, events := a.points.emitter.Dropped(); points > 0 {
		a.options.Log.Warn(fmt.Sprintf("Stopping: Telegraf did not read within %s; %d points with %d events are lost", limit, points, events))
	}
}

// stopWatching leaves a tenth of the limit to stopEmitting. Workers that still exist then
// are left to the kernel.
func (a *Agent) stopWatching(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit*9/10)
	defer cancel()
	if !a.watching.stop(ctx) {
		a.options.Log.Error(fmt.Sprintf("Stopping: workers are still there after %s and are left to the kernel", limit*9/10))
		return
	}
	if err := a.watcher.Close(); err != nil {
		a.options.Log.Warn(fmt.Sprintf("Stopping: %v", err))
	}
}

// stopEmitting returns once no goroutine of the agent can call the accumulator any more.
func (a *Agent) stopEmitting(ctx context.Context, interrupt func()) {
	a.points.emitter.Close()
	a.emitting.awaitEnd(ctx)
	a.emitting.cancel()
	if interrupt != nil {
		interrupt()
	}
	<-a.emitting.done
}
