package timeline

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// perSecond is the limit for the points of one series that are recorded in a second. It is also the limit for all
// applications together, because any user can start any number of them. Points above the limit merge, and every event stays
// counted.
const perSecond = 20

// Recording turns points into records and passes them to a recorder. Its methods may be called
// concurrently, except that only one goroutine at a time may call RecordInterval. Only Run
// blocks.
type Recording struct {
	rec     *recorder.Recorder
	devices queue
	apps    queue // a queue of its own, so that applications neither displace nor delay other records
	// intervalChanges handles the points that come only once per interval. It and holders are used only by RecordInterval.
	intervalChanges *Changes
	holders         holders
}

// queue limits the points of some parts on their way to the recorder.
type queue struct {
	*emit.Emitter
	changes *Changes // used only by the goroutine that runs the Emitter
}

// NewRecording returns a Recording for a recorder. Run of the Recording runs the recorder. The times that now returns must not
// decrease.
func NewRecording(rec *recorder.Recorder, now func() time.Time) *Recording {
	return &Recording{
		rec:             rec,
		devices:         queue{emit.New(perSecond, now), NewChanges(RegisterDevices, RegisterFabric)},
		apps:            queue{emit.NewLimited(perSecond, perSecond, now), NewChanges(RegisterApplications)},
		intervalChanges: NewChanges(RegisterUnreadErrors, registerLosses),
		holders:         holders{},
	}
}

// Emit records a point if it reports something new. It does not keep the point.
func (r *Recording) Emit(p measure.Point) {
	for _, q := range []queue{r.devices, r.apps} {
		if q.changes.Handles(p) {
			q.Emit(p.Clone())
		}
	}
}

// RecordInterval records what is new in the points of an interval: failed rounds of probes, applications that do not read
// their errors or hang, whether the tracer is attached, and which units hold objects of a device. It does not keep the points.
func (r *Recording) RecordInterval(points []measure.Point) {
	for _, one := range r.holders.changes(points) {
		r.Add(one)
	}
	for _, p := range points {
		// These points do not pass a queue, because points without news would use up its limit.
		if one, ok := r.intervalChanges.RecordOf(p, nil); ok {
			r.Add(one)
		}
		if r.apps.changes.Handles(p) {
			r.apps.Emit(p.Clone()) // such points may also come outside of an interval; the queue keeps their order
		}
	}
}

// Add passes a record to the recorder.
func (r *Recording) Add(one Record) {
	e := recorder.Entry{Kind: one.Kind, Device: one.Device, Port: one.Port, Sync: one.isUrgent()}
	one.Kind, one.Device, one.Port = "", "", 0 // the recorder stores them in the entry
	e.Data = one
	r.rec.Add(e)
}

// recordSink passes the records of the points of a queue to the recorder.
type recordSink struct {
	*Recording
	changes *Changes
}

// Write implements emit.Sink.
func (s recordSink) Write(_ context.Context, p measure.Point, _ time.Time) (dropped uint64) {
	if one, ok := s.changes.RecordOf(p, nil); ok {
		s.Add(one)
	}
	return 0
}

// Counts returns the counters of the recorder.
func (r *Recording) Counts() recorder.Counts { return r.rec.Counts() }

// Run records until ctx is done. It then records the waiting points, for at most 200 ms. It
// returns the error of the recorder.
func (r *Recording) Run(ctx context.Context) error {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var queued sync.WaitGroup
	for _, q := range []queue{r.devices, r.apps} {
		queued.Go(func() { q.Run(writing, recordSink{r, q.changes}) })
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
