package measure

import (
	"time"

	"rdma_events/internal/sys/status"
)

// Tracer is the point of rdma_tracer.
type Tracer struct {
	Attached  bool
	Hooks     string // of the last attachment; "" before the first
	Missing   int    // hooks
	Worker    status.Status
	Gaps      uint64
	Blind     int64 // ns
	Lost      uint64
	Full      uint64
	Processes int
	Load      int64 // ns; 0: not known
	CPU       int64 // ns, of all tracers so far; 0: not known
	RSS       int64 // bytes; 0: not known
	At        time.Time
}

// Key implements Point.
func (*Tracer) Key() Key { return Key{Measurement: tracers.Name} }

// Time implements Point.
func (t *Tracer) Time() time.Time { return t.At }

// Merge implements Point: the later one replaces this.
func (t *Tracer) Merge(later Point) { *t = *later.(*Tracer) }

// Clone implements Point.
func (t *Tracer) Clone() Point { return clone(t) }

// Events implements Point.
func (*Tracer) Events() uint64 { return 0 }

// Lines implements Point.
func (t *Tracer) Lines(add func(Line)) { add(tracers.line(t)) }

var tracers = table[Tracer]{
	Metric: Metric{
		Name:    "rdma_tracer",
		Emitted: everyInterval,
		Description: "The program that sees the events of applications (rdma-events-tracer). Only with applications.events. " +
			"What happens while it is not attached is in no count.",
	},
	fields: []field[Tracer]{
		yesNo("attached", "1 while it sees events", func(v *Tracer) bool { return v.Attached }),
		text("hooks", "how it is, or was last, attached: kprobe, fentry or sim", func(v *Tracer) string { return v.Hooks }),
		integer("hooks_missing", "", "functions that this kernel lacks or does not let be probed; the log names them, and what they would show is not seen",
			func(v *Tracer) int64 { return int64(v.Missing) }),
		text("worker_state", "starting, running, backing_off, stuck or stopped",
			func(v *Tracer) status.State { return v.Worker.State }),
		text("reason", "ok, or why it is not attached: starting, no_program, no_permission, no_device, unsupported, crashed, stuck, removed or limit",
			func(v *Tracer) status.Reason { return v.Worker.Reason }),
		counter("restarts", "times it was started again", func(v *Tracer) uint64 { return v.Worker.Restarts }),
		counter("gaps", "times that it ended after it had been attached", func(v *Tracer) uint64 { return v.Gaps }),
		cumulative(integer("blind_ns", "ns", "time in those gaps, from the last that was heard of it until the next was attached",
			func(v *Tracer) int64 { return v.Blind })),
		counter("lost_records", "events and ends of hangs that were counted but did not come with their details",
			func(v *Tracer) uint64 { return v.Lost }),
		counter("map_full", "processes, queues and reads for which it had no place; processes and queues are then counted as other",
			func(v *Tracer) uint64 { return v.Full }),
		integer("processes", "", "processes that are counted now", func(v *Tracer) int64 { return int64(v.Processes) }),
		maybe("load_ns", "ns", "from its start to the attachment", func(v *Tracer) (int64, bool) { return v.Load, v.Load > 0 }),
		cumulative(maybe("cpu_ns", "ns", "processor time, of all starts together",
			func(v *Tracer) (int64, bool) { return v.CPU, v.CPU > 0 })),
		maybe("rss_bytes", "bytes", "resident memory", func(v *Tracer) (int64, bool) { return v.RSS, v.RSS > 0 }),
	},
}
