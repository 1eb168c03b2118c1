package history

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/apps"
	"rdma_events/internal/identity"
	"rdma_events/internal/measure"
	"rdma_events/internal/status"
	"rdma_events/internal/trace"
	tracesim "rdma_events/internal/trace/sim"
	"rdma_events/internal/verbs"
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

// objects handles who holds the objects of a device, nil if it is gone.
func (t *tracing) objects(device string, o *verbs.Objects) {
	if o == nil {
		t.picture.Forget(device)
		return
	}
	t.picture.Add(apps.NewLook(device, t.h.wall(), o, func(thread int) (identity.Process, bool) {
		p, ok := t.h.world.Process(thread, t.h.line.now)
		return p.Identity(), ok
	}))
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

// gather adds the points of an interval to the others.
func (t *tracing) gather(points []measure.Point) []measure.Point {
	if t == nil {
		return points
	}
	for _, p := range points {
		if h, ok := p.(*measure.Host); ok {
			h.Apps = t.picture.Host()
		}
	}
	at := t.moment()
	for _, p := range t.picture.Points(at.Wall) {
		points = append(points, p)
	}
	t.worker.CPU, t.worker.RSS = (t.h.line.now-booted)/2000, 12<<20+t.h.random.Int64N(1<<16)
	return append(points, t.picture.Events(&at, &t.worker)...)
}
