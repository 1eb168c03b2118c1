package rdma_events

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"

	"rdma_events/internal/measure"
)

// Recorder makes line protocol of what a monitor says as Plugin does, at the
// time that its clock tells: for histories. It starts no goroutine; Sink may be
// called concurrently, the rest by one goroutine.
type Recorder struct {
	emitter *emitter
	out     output
	lines   *recording
}

// Usage is what the plugin's own process has used, for rdma_collector.
type Usage struct {
	Uptime, CPU time.Duration
	RSS         int64 // bytes
}

// NewRecorder returns a Recorder that writes to w. tags are added to every
// point, as Telegraf adds its host; maxEventPoints is the option
// max_event_points; now does not go back.
func NewRecorder(w io.Writer, tags map[string]string, maxEventPoints int, now func() time.Time) (*Recorder, error) {
	lines := &recording{to: w, tags: tags, serializer: influx.Serializer{SortFields: true}}
	if err := lines.serializer.Init(); err != nil {
		return nil, fmt.Errorf("init serializer: %w", err)
	}
	return &Recorder{
		emitter: newEmitter(measure.NewTables(), maxEventPoints, now),
		out:     output{acc: lines, last: make(map[string]time.Time)},
		lines:   lines,
	}, nil
}

// Sink is what the monitor is to tell.
func (r *Recorder) Sink() measure.Sink { return r.emitter }

// Interval takes what one Gather has returned; the snapshot is the Recorder's
// from then on.
func (r *Recorder) Interval(s *measure.Snapshot, u Usage, now time.Time) {
	r.emitter.interval(s, measure.Usage{Uptime: int64(u.Uptime), CPU: int64(u.CPU), RSS: u.RSS}, now)
}

// Flush writes what is to be emitted by now. What max_event_points still holds
// back is due after wait, negative when there is nothing. It blocks as the
// writer does and returns its first error.
func (r *Recorder) Flush() (wait time.Duration, err error) {
	for {
		it, wait, _ := r.emitter.next()
		if it == nil {
			return wait, r.lines.err
		}
		r.emitter.emit(context.Background(), it, &r.out)
	}
}

// Close writes everything, also what is held back.
func (r *Recorder) Close() error {
	r.emitter.close()
	_, err := r.Flush()
	return err
}

// recording writes points as lines, until the first error.
type recording struct {
	to         io.Writer
	tags       map[string]string
	serializer influx.Serializer
	err        error
}

// AddFields implements fieldAdder.
func (l *recording) AddFields(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	if l.err != nil {
		return
	}
	m := metric.New(name, tags, fields, t[0])
	for key, value := range l.tags {
		m.AddTag(key, value)
	}
	line, err := l.serializer.Serialize(m)
	if err == nil {
		_, err = l.to.Write(line)
	}
	if err != nil {
		l.err = fmt.Errorf("record %s: %w", name, err)
	}
}
