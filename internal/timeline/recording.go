package timeline

import (
	"context"
	"time"

	"rdma_events/internal/emit"
	"rdma_events/internal/measure"
	"rdma_events/internal/recorder"
	"rdma_events/internal/verbs"
)

// perSecond is how many points of one series are recorded in a second. Those above merge,
// and no event is left out of a count.
const perSecond = 20

// Recording keeps what happens in a recorder. Its methods may be called concurrently, except
// that one goroutine at a time may call Interval. None but Run waits for anything.
type Recording struct {
	rec     *recorder.Recorder
	queue   *emit.Emitter
	changes *Changes         // used by the goroutine of the queue
	bad     map[probeOf]Lost // used by Interval
}

type probeOf struct {
	device string
	verbs.ProbeKey
}

// NewRecording returns the Recording of a recorder, which its Run runs. now must not go back.
func NewRecording(rec *recorder.Recorder, now func() time.Time) *Recording {
	return &Recording{rec: rec, queue: emit.New(perSecond, now), changes: NewChanges(), bad: make(map[probeOf]Lost)}
}

// Emit records a point if it is news (Changes). It does not keep the point.
func (r *Recording) Emit(p measure.Point) { r.queue.Emit(p.Clone()) }

// Interval records the probes of an interval that have lost rounds since the one before.
func (r *Recording) Interval(points []measure.Point) {
	for _, p := range points {
		v, ok := p.(*measure.Probe)
		if !ok {
			continue
		}
		key := probeOf{v.Device, v.ProbeKey}
		bad := Lost{Events: v.Counts.LostEvents, Completions: v.Counts.LostCompletions, Errors: v.Counts.Errors}
		if bad == r.bad[key] {
			continue
		}
		r.bad[key] = bad
		probe := NewProbe(v)
		probe.Lost = &bad
		r.Add(Record{Time: v.At, Kind: KindProbe, Device: v.Device, Port: v.Port, Probe: probe})
	}
}

// Add records one record.
func (r *Recording) Add(one Record) {
	e := recorder.Entry{Kind: one.Kind, Device: one.Device, Port: one.Port, Sync: isUrgent(&one)}
	one.Kind, one.Device, one.Port = "", "", 0 // the recorder has them
	e.Data = one
	r.rec.Add(e)
}

// isUrgent reports whether the host may go down next.
func isUrgent(r *Record) bool {
	switch r.Kind {
	case KindEvent:
		return r.Event == verbs.EventPortErr.String() || r.Event == verbs.EventDeviceFatal.String()
	case KindCommand:
		return r.Command.Stuck
	case KindDevice:
		return r.Opened == nil
	}
	return false
}

// Put implements emit.Sink.
func (r *Recording) Put(_ context.Context, p measure.Point, _ time.Time) (lost uint64) {
	one, ok := r.changes.Of(p, nil)
	if !ok {
		return 0
	}
	if d, ok := p.(*measure.Device); ok {
		one.Why = d.Worker.Message
	}
	r.Add(one)
	return 0
}

// Counts returns the counters of the recorder.
func (r *Recording) Counts() recorder.Counts { return r.rec.Counts() }

// Run records until ctx is done, then what waits, for 200 ms at most. The error is that of
// the recorder.
func (r *Recording) Run(ctx context.Context) error {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	queued := make(chan struct{})
	go func() {
		defer close(queued)
		r.queue.Run(writing, r)
	}()
	go func() {
		<-ctx.Done()
		r.queue.Close()
		<-queued
		stop()
	}()
	return r.rec.Run(writing)
}
