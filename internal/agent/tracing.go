package agent

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"rdma_events/internal/applications/inventory"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/sys/wake"
)

// tracerService keeps the host's tracer running. It implements tracer.Handler: it stores the tracer's status, and adds
// what the tracer sees to the inventory of applications.
type tracerService struct {
	config   tracer.Config // without the program
	programs *programs
	open     func() (*os.File, error) // opens the tracer program
	apps     *inventory.Keeper
	log      *slog.Logger
	retryNow wake.Signal // requests another attempt to open the program

	mu         sync.Mutex
	status     status.Status
	supervisor *tracer.Supervisor // nil until the program has been opened
}

// tracerRetryInterval is the time between two attempts to open the tracer program while it is missing.
const tracerRetryInterval = 30 * time.Second

// newTracerService returns nil if applications are not traced.
func (c *Config) newTracerService(p *programs, holders *inventory.Keeper, r verbs.Request, starts *process.Starts, log *slog.Logger) *tracerService {
	if !c.Applications.Events {
		return nil
	}
	return &tracerService{
		config: tracer.Config{
			Dir: p.dir, Request: c.traceRequest(r), Timing: c.processTiming(), Starts: starts, Log: log,
			Settings: tracer.Settings{Hooks: c.tracerHooks(r.Backend), Reads: c.WorkerFiles(r)},
		},
		programs: p, open: c.Applications.openTracer, apps: holders, log: log, retryNow: wake.New(),
	}
}

// tracerHooks returns how the tracer attaches to the kernel. The simulated tracer attaches to nothing and needs no
// privilege.
func (c *Config) tracerHooks(backend string) string {
	if backend == verbs.BackendSim {
		return ""
	}
	return c.Applications.Hooks
}

// traceRequest returns the request to the tracer.
func (c *Config) traceRequest(all verbs.Request) trace.Request {
	return trace.Request{Backend: all.Backend, Sim: all.Sim, HangAfter: time.Duration(c.Applications.HangAfter)}
}

// run keeps the tracer running. It returns when ctx is done and the tracer has ended. If the program is missing, run
// waits for it.
func (t *tracerService) run(ctx context.Context) {
	if !t.openProgram(ctx) {
		return
	}
	t.config.Exe = t.programs.tracer
	sup := tracer.New(t.config, t)
	t.mu.Lock()
	t.supervisor = sup
	t.mu.Unlock()
	if err := sup.Run(ctx); err != nil {
		t.log.Warn("tracer: supervision failed", "error", err)
	}
}

// openProgram opens the tracer program, and retries until that succeeds. It returns false if ctx is done first.
// programs.close closes the program.
func (t *tracerService) openProgram(ctx context.Context) bool {
	tick := time.NewTicker(tracerRetryInterval)
	defer tick.Stop()
	for last := ""; ; {
		var err error
		if t.programs.tracer, err = t.open(); err == nil {
			return true
		}
		if err.Error() != last {
			last = err.Error()
			t.log.Warn("tracer: open failed, applications are not traced", "reason", string(status.ReasonNoProgram), "error", last)
			t.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonNoProgram, Message: last})
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		case <-t.retryNow:
		}
	}
}

// wake makes a waiting tracer start now.
func (t *tracerService) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.supervisor != nil {
		t.supervisor.Wake()
		return
	}
	t.retryNow.Send()
}

// workerStatus returns the status and the resource usage of the tracer's process. t may be nil.
func (t *tracerService) workerStatus() inventory.Worker {
	if t == nil {
		return inventory.Worker{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := inventory.Worker{Status: t.status}
	if pid := t.status.PID; pid != 0 {
		w.CPU, w.RSS = int64(process.Used(pid)), int64(process.Resident(pid))
	}
	return w
}

// Attached implements tracer.Handler.
func (t *tracerService) Attached(a trace.Attached, s status.Status) {
	t.Status(s)
	t.log.Info("tracer: attached", "hooks", a.Hooks, "load", a.Load)
	if len(a.Missing) > 0 {
		t.log.Warn("tracer: kernel functions cannot be probed, some events of applications are not reported", "functions", strings.Join(a.Missing, ", "))
	}
	t.apps.HandleAttached(&a)
}

// Update implements tracer.Handler.
func (t *tracerService) Update(s *trace.Update) { t.apps.HandleUpdate(s) }

// Ended implements tracer.Handler.
func (t *tracerService) Ended(status.End) { t.apps.HandleTracerEnd() }

// Status implements tracer.Handler.
func (t *tracerService) Status(s status.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = s
}

// wakingDiscovery is a Discovery that wakes a waiting tracer when a device becomes usable: a new device, or one whose
// driver core was loaded again.
type wakingDiscovery struct {
	verbs.Discovery
	wake func()
}

// Run implements verbs.Discovery.
func (w wakingDiscovery) Run(ctx context.Context, report func([]verbs.Found)) error {
	var last []verbs.Found
	return w.Discovery.Run(ctx, func(found []verbs.Found) {
		if slices.ContainsFunc(found, func(f verbs.Found) bool { return f.Usable() && !slices.Contains(last, f) }) {
			w.wake()
		}
		last = found
		report(found)
	})
}

var _ tracer.Handler = (*tracerService)(nil)
