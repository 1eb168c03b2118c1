package measure

import (
	"slices"
	"time"

	"rdma_events/internal/telemetry/aggregate"
)

// Collector is the point of rdma_collector.
type Collector struct {
	Devices int
	// FunctionsSkipped counts the virtual and scalable functions that the option virtual_functions excludes.
	FunctionsSkipped int
	// ExpectedMissing counts the devices that the sections expected of the configuration lack. It is known if Counted is set.
	ExpectedMissing   int
	ExpectedMissingOf string // the sections that lack devices, in words
	Counted           bool
	Workers           int
	WorkerRestarts    uint64
	WorkersStuck      int
	AsyncEvents       uint64
	DeliveryP         aggregate.Percentiles // from the return of ibv_get_async_event to the handling of the event in the monitor
	WorkerRSS         uint64                // bytes, sum of all workers
	Queue             Queue
	Usage             Usage
	EvidenceMerged    uint64
	Recorder          *Recorder // nil: the plugin records nothing
	// MemorySince is the start of the plugin if it keeps its memory of ports only until it ends; zero if a file outlives
	// the plugin. It is not emitted.
	MemorySince time.Time
	At          time.Time
}

// Queue counts the points that wait to be emitted, the points that were merged or
// dropped, and the skipped intervals.
type Queue struct {
	Merged, Dropped, Skipped uint64
	Length, Capacity         int
}

// Recorder counts the records that the recorder wrote, its failed writes and the records that it lost.
type Recorder struct{ Recorded, Errors, Lost uint64 }

// Usage is the resource usage of the plugin's process. 0 means unknown.
type Usage struct {
	Uptime int64 // ns, CLOCK_BOOTTIME
	CPU    int64 // ns
	RSS    int64 // bytes
}

// Key implements Point.
func (*Collector) Key() Key { return Key{Measurement: collectorTable.Name} }

// Time implements Point.
func (c *Collector) Time() time.Time { return c.At }

// Merge implements Point. The later point replaces this one.
func (c *Collector) Merge(later Point) { *c = *later.(*Collector) }

// Clone implements Point.
func (c *Collector) Clone() Point { return clone(c) }

// Events implements Point.
func (*Collector) Events() uint64 { return 0 }

// Lines implements Point.
func (c *Collector) Lines(add func(Line)) { add(collectorTable.line(c)) }

var collectorTable = table[Collector]{
	Metric: Metric{
		Name:        "rdma_collector",
		Emitted:     everyInterval,
		Description: "Health of the plugin itself.",
	},
	fields: slices.Concat(watchFields(), queueFields(), recorderFields(), usageFields()),
}

func watchFields() []field[Collector] {
	return []field[Collector]{
		requiredInt("devices", "", "devices that are present and not excluded",
			func(c *Collector) int64 { return int64(c.Devices) }),
		optionalInt("functions_skipped", "", "virtual and scalable functions that are present but excluded by the option `virtual_functions`",
			func(c *Collector) (int64, bool) { return int64(c.FunctionsSkipped), c.FunctionsSkipped > 0 }),
		optionalInt("expected_missing", "", "devices missing from the `count` of the sections `expected`; released devices and devices in another "+
			"network namespace count as present", func(c *Collector) (int64, bool) { return int64(c.ExpectedMissing), c.Counted }),
		optionalText("expected_missing_of", "sections `expected` that lack devices, and how many each of them lacks; only if one does",
			func(c *Collector) string { return c.ExpectedMissingOf }),
		requiredInt("workers", "", "running worker processes", func(c *Collector) int64 { return int64(c.Workers) }),
		counter("worker_restarts", "worker starts, without the first one of each device",
			func(c *Collector) uint64 { return c.WorkerRestarts }),
		requiredInt("workers_stuck", "", "workers that were killed and have not ended, in most cases because the kernel holds one of their threads",
			func(c *Collector) int64 { return int64(c.WorkersStuck) }),
		counter("events", "asynchronous events read from all devices", func(c *Collector) uint64 { return c.AsyncEvents }),
		counter("evidence_merged", "triggers of evidence that share the snapshot of another trigger",
			func(c *Collector) uint64 { return c.EvidenceMerged }),
		optionalInt("delivery_ns_p50", "ns", "time from the return of ibv_get_async_event in the worker to the plugin, p50 of the window",
			func(c *Collector) (int64, bool) { return c.DeliveryP.P50, c.DeliveryP.Count > 0 }),
		optionalInt("delivery_ns_p99", "ns", "time from the return of ibv_get_async_event in the worker to the plugin, p99 of the window",
			func(c *Collector) (int64, bool) { return c.DeliveryP.P99, c.DeliveryP.Count > 0 }),
		optionalInt("worker_rss_bytes", "bytes", "resident memory of all workers together",
			func(c *Collector) (int64, bool) { return clampToInt64(c.WorkerRSS), c.WorkerRSS > 0 || c.Workers == 0 }),
	}
}

func queueFields() []field[Collector] {
	return []field[Collector]{
		counter("merged_points", "points merged into another point of their series; no event is lost by merging",
			func(c *Collector) uint64 { return c.Queue.Merged }),
		counter("dropped_points", "points not emitted before the deadline of the shutdown",
			func(c *Collector) uint64 { return c.Queue.Dropped }),
		counter("skipped_intervals", "intervals not emitted because Telegraf had not read the previous one; the next interval "+
			"covers both", func(c *Collector) uint64 { return c.Queue.Skipped }),
		requiredInt("queue_length", "", "points waiting for Telegraf to read or for the limit of points per second",
			func(c *Collector) int64 { return int64(c.Queue.Length) }),
		requiredInt("queue_capacity", "", "queue length from which on all further points merge",
			func(c *Collector) int64 { return int64(c.Queue.Capacity) }),
	}
}

func recorderFields() []field[Collector] {
	count := func(name, description string, value func(*Recorder) uint64) field[Collector] {
		return markCumulative(optionalInt(name, "", description, func(c *Collector) (int64, bool) {
			if c.Recorder == nil {
				return 0, false
			}
			return clampToInt64(value(c.Recorder)), true
		}))
	}
	return []field[Collector]{
		count("recorded", "records written; only if the recorder has a directory", func(r *Recorder) uint64 { return r.Recorded }),
		count("record_errors", "failed writes of the recorder", func(r *Recorder) uint64 { return r.Errors }),
		count("record_lost", "records that were not written", func(r *Recorder) uint64 { return r.Lost }),
	}
}

func usageFields() []field[Collector] {
	return []field[Collector]{
		requiredInt("uptime_ns", "ns", "time since the plugin started, including suspension of the host",
			func(c *Collector) int64 { return c.Usage.Uptime }),
		markCumulative(optionalInt("cpu_ns", "ns", "processor time of the plugin's process",
			func(c *Collector) (int64, bool) { return c.Usage.CPU, c.Usage.CPU > 0 })),
		optionalInt("rss_bytes", "bytes", "resident memory of the plugin's process",
			func(c *Collector) (int64, bool) { return c.Usage.RSS, c.Usage.RSS > 0 }),
	}
}
