package history

import (
	"context"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/inventory"
	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/applications"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// These are the plugin's defaults.
const (
	maxSeries = 100
	hangAfter = 10 * time.Second
)

// goneInterval is how often the plugin looks whether processes are gone of which only a tracer knew that has ended.
const goneInterval = time.Minute

// tracing simulates the tracers that run on a host, one after the other. It passes what they see to the plugin's own
// inventory.Keeper, which also takes the lists of objects from the sessions.
type tracing struct {
	supervised
	apps  *inventory.Keeper
	found []verbs.Found  // the devices that were found last
	died  syscall.Signal // of the tracer; 0: it has not
}

// newTracing returns nil for a host without applications.
func newTracing(h *host) (*tracing, error) {
	if !h.of.Applications {
		return nil, nil
	}
	k, err := inventory.NewKeeper(inventory.Config{
		Options: inventory.Options{By: []string{"app", "unit"}, MaxSeries: maxSeries, Events: true},
		Process: func(thread int) (identity.Process, bool) {
			p, ok := h.world.Process(thread, h.line.now)
			return p.Identity(), ok
		},
		Now: h.wall, Mono: func() int64 { return h.line.now }, Emit: h.emit,
	})
	return &tracing{supervised: newSupervised(h, func(status.Status) {}), apps: k}, err
}

// begin starts the lanes of the tracers and of the Keeper.
func (t *tracing) begin() {
	t.lane = t.h.line.start(t.h.line.now, t.runTracers)
	t.h.line.start(t.h.line.now+int64(goneInterval), func() {
		for ok := true; ok; ok = t.h.line.wait(t.h.line.now + int64(goneInterval)) {
			t.apps.RemoveGone()
		}
	})
}

// update handles who holds the objects of a device, and a device that is gone.
func (t *tracing) update(u monitor.Update) {
	switch {
	case u.Gone:
		t.apps.RemoveDevice(u.Device)
	case u.Item != nil && u.Item.Objects != nil:
		t.apps.AddObjects(u.Device, u.Item.Objects)
		t.apps.AddLists()
	}
}

// discovered wakes a tracer that waits when a device can be opened that could not be before.
func (t *tracing) discovered(found []verbs.Found) {
	if slices.ContainsFunc(found, func(f verbs.Found) bool { return f.Usable() && !slices.Contains(t.found, f) }) {
		t.Wake()
	}
	t.found = slices.Clone(found)
}

// runTracers runs tracers, one after another.
func (t *tracing) runTracers() {
	for {
		t.starts()
		why, ok := t.runTracer()
		if !ok {
			return
		}
		retry := tracer.RetryAfter(why.Reason)
		t.ended(retry)
		t.apps.HandleTracerEnd()
		t.apps.RemoveGone()
		if !t.waitToRetry(why, retry) {
			return
		}
	}
}

// runTracer runs one tracer and returns why it ended. It returns false at the end of the history.
func (t *tracing) runTracer() (why status.End, ok bool) {
	src, err := applications.Open(t.h.world, hangAfter)
	if err != nil {
		return tracer.EndOf(err), true
	}
	defer func() { _ = src.Close() }() // it does not fail
	t.opened()
	seen := src.Attached()
	seen.Load = 900 * time.Millisecond
	t.apps.HandleAttached(&seen)
	for t.died = 0; t.h.line.wait(t.h.line.now + int64(time.Second)); {
		s, err := src.Next(context.Background()) // at once: the second is over
		switch {
		case t.died != 0:
			return status.End{Reason: status.ReasonCrashed, Message: "tracer died of " + unix.SignalName(t.died)}, true
		case err != nil:
			return tracer.EndOf(err), true
		}
		t.apps.HandleUpdate(s)
	}
	return why, false
}

// gather adds the points of an interval. t may be nil.
func (t *tracing) gather(i *measure.Interval) {
	if t == nil {
		return
	}
	if i.Host != nil {
		i.Host.Apps = t.apps.Host()
	}
	w := inventory.Worker{Status: t.status}
	if t.status.PID != 0 {
		w.CPU, w.RSS = (t.h.line.now-booted)/2000, 12<<20+t.h.random.Int64N(1<<16)
	}
	i.Add(t.apps.Points(t.h.wall(), w)...)
}
