package timeline

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// perSecond is how many points of one series are recorded in a second, and of all applications together, since any user
// may have any number of those. Points above it merge, and no event is left out of a count.
const perSecond = 20

// Recording keeps what happens in a recorder. Its methods may be called concurrently, except
// that one goroutine at a time may call Interval. None but Run waits for anything.
type Recording struct {
	rec     *recorder.Recorder
	devices queue
	apps    queue    // what applications do neither displaces nor delays the rest
	looks   *Changes // of the points that come at intervals alone; used by Interval, as are holders
	holders holders
}

// queue is points on their way to the recorder.
type queue struct {
	*emit.Emitter
	changes *Changes // used by the goroutine of the Emitter
}

// NewRecording returns the Recording of a recorder, which its Run runs. now must not go back.
func NewRecording(rec *recorder.Recorder, now func() time.Time) *Recording {
	return &Recording{
		rec:     rec,
		devices: queue{emit.New(perSecond, now), NewChanges(OfDevices, OfFabric)},
		apps:    queue{emit.NewLimited(perSecond, perSecond, now), NewChanges(OfApplications)},
		looks:   NewChanges(OfUnreadErrors, ofLosses),
		holders: holders{},
	}
}

// Emit records a point if it is news (Changes). It does not keep the point.
func (r *Recording) Emit(p measure.Point) {
	for _, q := range []queue{r.devices, r.apps} {
		if q.changes.Has(p) {
			q.Emit(p.Clone())
		}
	}
}

// Interval records what an interval has that is new since the one before: probes that have lost rounds, applications that
// do not read their errors or hang, whether the tracer is attached, and which units hold objects of a device. It does not keep the points.
func (r *Recording) Interval(points []measure.Point) {
	for _, one := range r.holders.changes(points) {
		r.Add(one)
	}
	for _, p := range points {
		// Not through a queue: those that are no news would use up its limit.
		if one, ok := r.looks.Of(p, nil); ok {
			r.Add(one)
		}
		if r.apps.changes.Has(p) {
			r.apps.Emit(p.Clone()) // they may also come when they happen, and the queue keeps their order
		}
	}
}

// Add records one record.
func (r *Recording) Add(one Record) {
	e := recorder.Entry{Kind: one.Kind, Device: one.Device, Port: one.Port, Sync: one.isUrgent()}
	one.Kind, one.Device, one.Port = "", "", 0 // the recorder has them
	e.Data = one
	r.rec.Add(e)
}

// sink passes the points of a queue on to the recorder.
type sink struct {
	*Recording
	changes *Changes
}

// Write implements emit.Sink.
func (s sink) Write(_ context.Context, p measure.Point, _ time.Time) (dropped uint64) {
	if one, ok := s.changes.Of(p, nil); ok {
		s.Add(one)
	}
	return 0
}

// Counts returns the counters of the recorder.
func (r *Recording) Counts() recorder.Counts { return r.rec.Counts() }

// Run records until ctx is done, then what waits, for 200 ms at most. The error is that of
// the recorder.
func (r *Recording) Run(ctx context.Context) error {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var queued sync.WaitGroup
	for _, q := range []queue{r.devices, r.apps} {
		queued.Go(func() { q.Run(writing, sink{r, q.changes}) })
	}
	go func() {
		<-ctx.Done()
		r.devices.Close()
		r.apps.Close()
		queued.Wait()
		stop()
	}()
	return r.rec.Run(writing)
}
