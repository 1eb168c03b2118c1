package history

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/apps"
	"rdma_events/internal/identity"
	"rdma_events/internal/measure"
	"rdma_events/internal/monitor"
	"rdma_events/internal/status"
	"rdma_events/internal/trace"
	tracesim "rdma_events/internal/trace/sim"
)

// These are the plugin's defaults.
const (
	maxSeries = 100
	hangAfter = 10 * time.Second
	// retryTracer is how long a tracer that was refused is not tried again.
	retryTracer = 30 * time.Second
)

// tracing simulates what a host has of its applications: the picture of them, and the tracer. Its looks at objects are made
// by the sessions.
type tracing struct {
	h       *host
	picture *apps.Picture
	worker  apps.Worker
}

// newTracing returns nil for a host without applications.
func newTracing(h *host) (*tracing, error) {
	if !h.of.Applications {
		return nil, nil
	}
	p, err := apps.NewPicture(apps.Options{By: []string{"app", "unit"}, MaxSeries: maxSeries, Events: true})
	return &tracing{h: h, picture: p}, err
}

// update handles who holds the objects of a device, and a device that is gone.
func (t *tracing) update(u monitor.Update) {
	switch {
	case u.Gone:
		t.picture.Forget(u.Device)
	case u.Item != nil && u.Item.Objects != nil:
		t.picture.Add(apps.NewLook(u.Device, t.h.wall(), u.Item.Objects, func(thread int) (identity.Process, bool) {
			p, ok := t.h.world.Process(thread, t.h.line.now)
			return p.Identity(), ok
		}))
	}
}

// run runs tracers, one after another, in a lane.
func (t *tracing) run() {
	for {
		src, err := tracesim.Open(t.h.world, hangAfter)
		if err == nil {
			t.attach(src)
			if err = t.follow(src); err == nil {
				return
			}
			t.picture.Detach(t.moment(), t.h.emit)
		}
		t.worker.Status = status.Status{State: status.StateBackingOff, Reason: reason(err)}
		if !t.h.line.wait(t.h.line.now + int64(retryTracer)) {
			return
		}
	}
}

func (t *tracing) attach(src trace.Source) {
	t.worker.Status = status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: 1 << 21}
	seen := src.Attached()
	seen.Load = 900 * time.Millisecond
	t.picture.Attach(&seen, t.moment(), t.h.emit)
}

// follow hands over what a tracer sees until it ends, and returns why. It returns nil at the end of the history.
func (t *tracing) follow(src trace.Source) error {
	defer func() { _ = src.Close() }() // it does not fail
	for t.h.line.wait(t.h.line.now + int64(time.Second)) {
		s, err := src.Next(context.Background()) // at once: the second is over
		if err != nil {
			return err
		}
		t.picture.Trace(s, t.moment(), t.h.emit)
	}
	return nil
}

// reason returns why a tracer does not run, after an error of its source.
func reason(err error) status.Reason {
	switch {
	case errors.Is(err, trace.ErrPermission):
		return status.ReasonNoPermission
	case errors.Is(err, trace.ErrUnsupported):
		return status.ReasonUnsupported
	}
	return status.ReasonNoDevice
}

func (t *tracing) moment() apps.Moment { return apps.Moment{Wall: t.h.wall(), Mono: t.h.line.now} }

// gather adds the points of an interval.
func (t *tracing) gather(i *measure.Interval) {
	if t == nil {
		return
	}
	if i.Host != nil {
		i.Host.Apps = t.picture.Host()
	}
	at := t.moment()
	for _, p := range t.picture.Points(at.Wall) {
		i.Add(p)
	}
	t.worker.CPU, t.worker.RSS = (t.h.line.now-booted)/2000, 12<<20+t.h.random.Int64N(1<<16)
	i.Add(t.picture.Events(&at, &t.worker)...)
}
