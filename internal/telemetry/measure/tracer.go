package measure

import (
	"time"

	"rdma_events/internal/sys/status"
)

// Tracer is the point of rdma_tracer.
type Tracer struct {
	Attached  bool
	Hooks     string // kind of the last attachment; "": none yet
	Missing   int    // hooks that are missing
	Worker    status.Status
	Gaps      uint64
	Blind     int64 // ns
	Lost      uint64
	Full      uint64
	Processes int
	Load      int64 // ns; 0: not known
	CPU       int64 // ns, of all tracer processes so far; 0: not known
	RSS       int64 // bytes; 0: not known
	At        time.Time
}

// Key implements Point.
func (*Tracer) Key() Key { return Key{Measurement: tracerTable.Name} }

// Time implements Point.
func (t *Tracer) Time() time.Time { return t.At }

// Merge implements Point. The later point replaces this one.
func (t *Tracer) Merge(later Point) { *t = *later.(*Tracer) }

// Clone implements Point.
func (t *Tracer) Clone() Point { return clone(t) }

// Events implements Point.
func (*Tracer) Events() uint64 { return 0 }

// Lines implements Point.
func (t *Tracer) Lines(add func(Line)) { add(tracerTable.line(t)) }

var tracerTable = table[Tracer]{
	Metric: Metric{
		Name:    "rdma_tracer",
		Emitted: everyInterval,
		Description: "The tracer, the program that observes the events of applications (rdma-events-tracer). Only with applications.events. " +
			"No count includes what happens while the tracer is not attached.",
	},
	fields: []field[Tracer]{
		boolInt("attached", "1 while the tracer observes events", func(v *Tracer) bool { return v.Attached }),
		optionalText("hooks", "kind of attachment, current or last: kprobe, fentry or sim", func(v *Tracer) string { return v.Hooks }),
		requiredInt("hooks_missing", "", "kernel functions that are missing or cannot be probed; the log names them, and "+
			"the tracer does not see what they would show",
			func(v *Tracer) int64 { return int64(v.Missing) }),
		optionalText("worker_state", "state of the tracer: starting, running, backing_off, stuck or stopped",
			func(v *Tracer) status.State { return v.Worker.State }),
		optionalText("reason", "ok, or why the tracer is not attached: starting, no_program, no_permission, no_device, unsupported, crashed, stuck, removed or limit",
			func(v *Tracer) status.Reason { return v.Worker.Reason }),
		counter("restarts", "times the tracer was restarted", func(v *Tracer) uint64 { return v.Worker.Restarts }),
		counter("gaps", "times the tracer ended after it had been attached", func(v *Tracer) uint64 { return v.Gaps }),
		markCumulative(requiredInt("blind_ns", "ns", "time in these gaps, from the last message of a tracer until the next tracer was attached",
			func(v *Tracer) int64 { return v.Blind })),
		counter("lost_records", "events and ends of hangs that were counted but whose details were lost",
			func(v *Tracer) uint64 { return v.Lost }),
		counter("map_full", "processes, queues and reads for which the tracer had no space; such processes and queues count as the application other",
			func(v *Tracer) uint64 { return v.Full }),
		requiredInt("processes", "", "processes that the tracer currently counts", func(v *Tracer) int64 { return int64(v.Processes) }),
		optionalInt("load_ns", "ns", "time from the start of the tracer to the attachment", func(v *Tracer) (int64, bool) { return v.Load, v.Load > 0 }),
		markCumulative(optionalInt("cpu_ns", "ns", "processor time of all tracer processes so far",
			func(v *Tracer) (int64, bool) { return v.CPU, v.CPU > 0 })),
		optionalInt("rss_bytes", "bytes", "resident memory of the tracer", func(v *Tracer) (int64, bool) { return v.RSS, v.RSS > 0 }),
	},
}
