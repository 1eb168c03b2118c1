package agent

import (
	"context"
	"log/slog"
	"time"

	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// Agent watches the RDMA devices of this host and emits points until it is stopped. Its methods must not be called
// concurrently. An Agent cannot be started again after Stop.
type Agent struct {
	config  *Config
	options Options
	open    func(*Config, dependencies) (watcher, error)
	now     func() time.Time
	start   int64 // CLOCK_BOOTTIME ns

	pipeline pipeline
	watcher  watcher
	watching goroutine
	emitting goroutine
	status   statusKeeper
	records  recordKeeper
}

// Options holds the settings that the calling program passes to New.
type Options struct {
	Log     *slog.Logger
	Version string // of the calling program
	// StatusDir is the directory of the status file, which other programs on the host read (package statusfile). If it
	// is empty, the agent writes no status file.
	StatusDir string
}

// watcher is the interface of Watcher that Agent uses. Tests replace it.
type watcher interface {
	// Run blocks until ctx is done and all workers have exited.
	Run(ctx context.Context) error
	// Gather returns the points of one interval. It does not block.
	Gather(now time.Time) measure.Interval
	// Close releases the resources of Run. It is called after Run has returned.
	Close() error
}

// dependencies holds the values that the agent passes to a watcher.
type dependencies struct {
	emit      func(measure.Point)
	log       *slog.Logger
	statusDir string // Options.StatusDir
}

// goroutine is one goroutine of the agent, with the means to stop it and to wait for it.
type goroutine struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// startGoroutine runs f in a goroutine. The context of f ends when stop is called.
func startGoroutine(f func(context.Context)) goroutine {
	ctx, cancel := context.WithCancel(context.Background())
	r := goroutine{cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		f(ctx)
	}()
	return r
}

// stop cancels the context of the goroutine and then waits for it as awaitEnd does.
func (r *goroutine) stop(ctx context.Context) bool {
	r.cancel()
	return r.awaitEnd(ctx)
}

// awaitEnd waits until the goroutine has ended or ctx is done. It returns true if the goroutine has ended.
func (r *goroutine) awaitEnd(ctx context.Context) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// New returns an Agent that has not been started. The caller must have checked c with Config.Validate, and must not
// change c afterwards.
func New(c *Config, o Options) *Agent {
	return &Agent{config: c, options: o, open: openWatcher, now: time.Now}
}

// Start opens the worker program and begins to watch. It does not block, except for at most two seconds if
// fabric.peers_file is being written. Start itself adds nothing to acc. Until Stop returns, one goroutine calls acc and
// may be blocked by it.
func (a *Agent) Start(acc emit.Accumulator) error {
	a.start = clock.Boot()
	log := a.options.Log
	a.records.start(&a.config.Recorder, a.options.Version, a.now, log)
	recorded := a.records.recordingLogger(log)
	a.pipeline = pipeline{
		devices: newAnnouncer(recorded), status: &a.status, records: &a.records, emitter: emit.New(a.config.MaxEventPoints, a.now),
	}
	w, err := a.open(a.config, dependencies{a.pipeline.handlePoint, recorded, a.options.StatusDir})
	if err != nil {
		a.records.stop(context.Background()) // it takes 200 ms at most
		return err
	}
	a.records.logIfDisabled(log)
	a.watcher = w
	a.emitting = startGoroutine(func(ctx context.Context) { a.pipeline.emitter.Run(ctx, emit.Lines(acc)) })
	a.watching = startGoroutine(func(ctx context.Context) {
		if err := w.Run(ctx); err != nil {
			log.Error("agent: watching devices failed", "error", err)
		}
	})
	a.status.start(a.options.StatusDir, a.options.Version, a.config.Simulated(), a.pipeline.emitter.Emit, a.now, log)
	return nil
}

// Gather queues the metrics of the interval that ends now. They reach the accumulator that was passed to Start, after
// the points that were emitted earlier. Gather never waits for Telegraf to read. If the metrics of the previous
// interval have not been read yet, Gather does nothing, and the next interval covers both.
func (a *Agent) Gather() {
	if !a.pipeline.emitter.AdmitInterval() {
		return
	}
	now := a.now()
	i := a.watcher.Gather(now)
	i.Own.Queue, i.Own.Usage = a.pipeline.emitter.Queue(), readUsage(a.start)
	a.pipeline.handleInterval(&i, now)
}

// Stop stops watching, emits the queued points and waits for the agent's goroutines, within five sixths of
// shutdown_timeout. Telegraf reads the emitted points in the remaining time. Stop counts and logs the points that it
// cannot emit in time. If interrupt is not nil, Stop calls it when all points are emitted or when the time is up. A
// blocked call of the accumulator must return then.
func (a *Agent) Stop(interrupt func()) {
	if a.watcher == nil {
		return
	}
	limit := time.Duration(a.config.ShutdownTimeout) * 5 / 6
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	a.stopWatching(ctx, limit)
	a.status.stopJudging(ctx)
	a.records.cancel() // the recorder writes its last records while the last points are emitted
	a.stopEmitting(ctx, interrupt)
	a.records.stop(ctx)
	a.status.stop(ctx)
	if points, events := a.pipeline.emitter.Dropped(); points > 0 {
		a.options.Log.Warn("agent: Telegraf did not read the last points in time", "timeout", limit, "lost_points", points, "lost_events", events)
	}
}

// stopWatching stops the workers. It leaves a tenth of the limit to stopEmitting. Workers that still exist after its
// time are left to the kernel.
func (a *Agent) stopWatching(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit*9/10)
	defer cancel()
	if !a.watching.stop(ctx) {
		a.options.Log.Error("agent: workers did not exit in time and are left to the kernel", "timeout", limit*9/10)
		return
	}
	if err := a.watcher.Close(); err != nil {
		a.options.Log.Warn("agent: close failed", "error", err)
	}
}

// stopEmitting emits the queued points. When it returns, no goroutine of the agent calls the accumulator any more.
func (a *Agent) stopEmitting(ctx context.Context, interrupt func()) {
	a.pipeline.emitter.Close()
	a.emitting.awaitEnd(ctx)
	a.emitting.cancel()
	if interrupt != nil {
		interrupt()
	}
	<-a.emitting.done
}
