package measure

import (
	"slices"
	"time"

	"rdma_events/internal/telemetry/aggregate"
)

// Collector is the point of rdma_collector.
type Collector struct {
	Devices int
	// FunctionsSkipped are the virtual and scalable functions that virtual_functions leaves out.
	FunctionsSkipped int
	// ExpectedMissing are the devices that groups of the configuration lack. It is known if Counted is set.
	ExpectedMissing   int
	ExpectedMissingOf string // which groups, in words
	Counted           bool
	Workers           int
	WorkerRestarts    uint64
	WorkersStuck      int
	AsyncEvents       uint64
	DeliveryP         aggregate.Percentiles // from the return of ibv_get_async_event until the monitor handles the event
	WorkerRSS         uint64                // bytes, sum of all workers
	Queue             Queue
	Usage             Usage
	EvidenceMerged    uint64
	Recorder          *Recorder // nil: nothing is recorded
	// MemorySince is the start of the plugin if what the host remembers began then; zero if it outlives the plugin. It is no field.
	MemorySince time.Time
	At          time.Time
}

// Queue counts the points that wait to be emitted, the points that were merged or
// dropped, and the intervals that were skipped.
type Queue struct {
	Merged, Dropped, Skipped uint64
	Length, Capacity         int
}

// Recorder counts what was recorded.
type Recorder struct{ Recorded, Errors, Lost uint64 }

// Usage is the resource usage of this process; 0 means unknown.
type Usage struct {
	Uptime int64 // ns, CLOCK_BOOTTIME
	CPU    int64 // ns
	RSS    int64 // bytes
}

// Key implements Point.
func (*Collector) Key() Key { return Key{Measurement: collectors.Name} }

// Time implements Point.
func (c *Collector) Time() time.Time { return c.At }

// Merge implements Point: the later one replaces this.
func (c *Collector) Merge(later Point) { *c = *later.(*Collector) }

// Clone implements Point.
func (c *Collector) Clone() Point { return clone(c) }

// Events implements Point.
func (*Collector) Events() uint64 { return 0 }

// Lines implements Point.
func (c *Collector) Lines(add func(Line)) { add(collectors.line(c)) }

var collectors = table[Collector]{
	Metric: Metric{
		Name:        "rdma_collector",
		Emitted:     everyInterval,
		Description: "The plugin's own health.",
	},
	fields: slices.Concat(watchRows(), queueRows(), recorderRows(), usageRows()),
}

func watchRows() []field[Collector] {
	return []field[Collector]{
		integer("devices", "", "devices that are present and not excluded",
			func(c *Collector) int64 { return int64(c.Devices) }),
		maybe("functions_skipped", "", "virtual and scalable functions that are present and that `virtual_functions` leaves out",
			func(c *Collector) (int64, bool) { return int64(c.FunctionsSkipped), c.FunctionsSkipped > 0 }),
		maybe("expected_missing", "", "how many devices fewer there are than the option `count` of the sections `expected` wants; a released device "+
			"and one in another network namespace count as there", func(c *Collector) (int64, bool) { return int64(c.ExpectedMissing), c.Counted }),
		text("expected_missing_of", "how many each of these sections lacks, if one does", func(c *Collector) string { return c.ExpectedMissingOf }),
		integer("workers", "", "worker processes that run", func(c *Collector) int64 { return int64(c.Workers) }),
		counter("worker_restarts", "workers started beyond the first of each device",
			func(c *Collector) uint64 { return c.WorkerRestarts }),
		integer("workers_stuck", "", "workers that the kernel does not let die",
			func(c *Collector) int64 { return int64(c.WorkersStuck) }),
		counter("events", "asynchronous events read, of all devices", func(c *Collector) uint64 { return c.AsyncEvents }),
		counter("evidence_merged", "triggers of evidence that went into the snapshot of another one",
			func(c *Collector) uint64 { return c.EvidenceMerged }),
		maybe("delivery_ns_p50", "ns", "from the return of ibv_get_async_event to this process, p50 of the window",
			func(c *Collector) (int64, bool) { return c.DeliveryP.P50, c.DeliveryP.Count > 0 }),
		maybe("delivery_ns_p99", "ns", "the same, p99",
			func(c *Collector) (int64, bool) { return c.DeliveryP.P99, c.DeliveryP.Count > 0 }),
		maybe("worker_rss_bytes", "bytes", "resident memory of all workers together",
			func(c *Collector) (int64, bool) { return clip(c.WorkerRSS), c.WorkerRSS > 0 || c.Workers == 0 }),
	}
}

func queueRows() []field[Collector] {
	return []field[Collector]{
		counter("merged_points", "points that went into a later one of their series; no event is lost by it",
			func(c *Collector) uint64 { return c.Queue.Merged }),
		counter("dropped_points", "points that the shutdown deadline cut off",
			func(c *Collector) uint64 { return c.Queue.Dropped }),
		counter("skipped_intervals", "intervals not emitted because Telegraf had not read the one before; the next "+
			"one covers both", func(c *Collector) uint64 { return c.Queue.Skipped }),
		integer("queue_length", "", "points that wait for Telegraf or for the limit of points per second",
			func(c *Collector) int64 { return int64(c.Queue.Length) }),
		integer("queue_capacity", "", "points above which all further ones merge",
			func(c *Collector) int64 { return int64(c.Queue.Capacity) }),
	}
}

func recorderRows() []field[Collector] {
	count := func(name, description string, value func(*Recorder) uint64) field[Collector] {
		return cumulative(maybe(name, "", description, func(c *Collector) (int64, bool) {
			if c.Recorder == nil {
				return 0, false
			}
			return clip(value(c.Recorder)), true
		}))
	}
	return []field[Collector]{
		count("recorded", "records written; not there without a recorder's directory", func(r *Recorder) uint64 { return r.Recorded }),
		count("record_errors", "failed writes of the recorder", func(r *Recorder) uint64 { return r.Errors }),
		count("record_lost", "records that were not written", func(r *Recorder) uint64 { return r.Lost }),
	}
}

func usageRows() []field[Collector] {
	return []field[Collector]{
		integer("uptime_ns", "ns", "since the start, suspension included",
			func(c *Collector) int64 { return c.Usage.Uptime }),
		cumulative(maybe("cpu_ns", "ns", "processor time of this process",
			func(c *Collector) (int64, bool) { return c.Usage.CPU, c.Usage.CPU > 0 })),
		maybe("rss_bytes", "bytes", "resident memory of this process",
			func(c *Collector) (int64, bool) { return c.Usage.RSS, c.Usage.RSS > 0 }),
	}
}
