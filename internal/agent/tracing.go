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

// tracing keeps the host's tracer running. It is its Handler: it keeps the status, and puts what the tracer sees into the
// picture of applications.
type tracing struct {
	config   tracer.Config // without the program
	programs *programs
	open     func() (*os.File, error) // opens the program
	apps     *inventory.Keeper
	log      *slog.Logger
	woken    wake.Signal // holds a token when another attempt to open the program may succeed

	mu     sync.Mutex
	status status.Status
	sup    *tracer.Supervisor // nil: there is no program yet
}

// openInterval is how often the program of the tracer is looked for while it is missing.
const openInterval = 30 * time.Second

// newTracing makes what keeps the tracer running, nil if applications are not traced.
func (c *Config) newTracing(p *programs, holders *inventory.Keeper, r verbs.Request, starts *process.Starts, log *slog.Logger) *tracing {
	if !c.Applications.Events {
		return nil
	}
	return &tracing{
		config: tracer.Config{
			Dir: p.dir, Request: c.traced(r), Timing: c.timing(), Starts: starts, Log: log,
			Settings: tracer.Settings{Hooks: c.hooks(r.Backend), Reads: c.Reads(r)},
		},
		programs: p, open: c.Applications.openTracer, apps: holders, log: log, woken: wake.New(),
	}
}

// hooks returns how the tracer attaches. The simulator's attaches to nothing, and needs no privilege.
func (c *Config) hooks(backend string) string {
	if backend == verbs.BackendSim {
		return ""
	}
	return c.Applications.Hooks
}

// traced returns the request to the tracer.
func (c *Config) traced(all verbs.Request) trace.Request {
	return trace.Request{Backend: all.Backend, Sim: all.Sim, HangAfter: time.Duration(c.Applications.HangAfter)}
}

// run keeps the tracer running until ctx is done and it has ended. A program that is missing is waited for.
func (t *tracing) run(ctx context.Context) {
	if !t.openProgram(ctx) {
		return
	}
	t.config.Exe = t.programs.tracer
	sup := tracer.New(t.config, t)
	t.mu.Lock()
	t.sup = sup
	t.mu.Unlock()
	if err := sup.Run(ctx); err != nil {
		t.log.Warn("supervision of the tracer ended", "error", err)
	}
}

// openProgram opens the program, which programs.close closes. Until that succeeds it tries again. It returns false if ctx is done
// first.
func (t *tracing) openProgram(ctx context.Context) bool {
	tick := time.NewTicker(openInterval)
	defer tick.Stop()
	for last := ""; ; {
		var err error
		if t.programs.tracer, err = t.open(); err == nil {
			return true
		}
		if err.Error() != last {
			last = err.Error()
			t.log.Warn("applications are not traced: "+last, "reason", string(status.ReasonNoProgram))
			t.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonNoProgram, Message: last})
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		case <-t.woken:
		}
	}
}

// wake makes a tracer that waits be started now.
func (t *tracing) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sup != nil {
		t.sup.Wake()
		return
	}
	t.woken.Send()
}

// worker returns how the tracer's process does. t may be nil.
func (t *tracing) worker() inventory.Worker {
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
func (t *tracing) Attached(a trace.Attached, s status.Status) {
	t.Status(s)
	t.log.Info("applications are traced", "hooks", a.Hooks, "load", a.Load)
	if len(a.Missing) > 0 {
		t.log.Warn("this kernel lacks functions or does not let them be probed, and what they would show of applications is not seen: " +
			strings.Join(a.Missing, ", "))
	}
	t.apps.HandleAttached(&a)
}

// Update implements tracer.Handler.
func (t *tracing) Update(s *trace.Update) { t.apps.HandleUpdate(s) }

// Ended implements tracer.Handler.
func (t *tracing) Ended(status.End) { t.apps.HandleTracerEnd() }

// Status implements tracer.Handler.
func (t *tracing) Status(s status.Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status = s
}

// waking is a Discovery that wakes a tracer when a device can be opened that could not be before: a new one, or one whose
// driver core was loaded again.
type waking struct {
	verbs.Discovery
	wake func()
}

// Run implements verbs.Discovery.
func (w waking) Run(ctx context.Context, report func([]verbs.Found)) error {
	var last []verbs.Found
	return w.Discovery.Run(ctx, func(found []verbs.Found) {
		if slices.ContainsFunc(found, func(f verbs.Found) bool { return f.Usable() && !slices.Contains(last, f) }) {
			w.wake()
		}
		last = found
		report(found)
	})
}

var _ tracer.Handler = (*tracing)(nil)
