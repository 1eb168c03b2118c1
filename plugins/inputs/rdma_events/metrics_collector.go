package rdma_events

import (
	"slices"

	"rdma_events/internal/monitor"
)

// collector is what rdma_collector is made from: the monitor's part and that of
// the plugin's own process.
type collector struct {
	monitor.CollectorView
	process
}

// process is what the plugin knows of itself.
type process struct {
	queue queueStats
	usage usage
}

func collectorMetric() measurement[collector] {
	return measurement[collector]{
		Metric: Metric{
			Name:        "rdma_collector",
			Emitted:     everyInterval,
			Description: "The plugin's own health.",
		},
		fields: slices.Concat(watchRows(), queueRows(), usageRows()),
	}
}

func watchRows() []field[collector] {
	return []field[collector]{
		integer("devices", "", "devices that are present and not excluded",
			func(c *collector) int64 { return int64(c.Devices) }),
		integer("workers", "", "worker processes that run", func(c *collector) int64 { return int64(c.Workers) }),
		counter("worker_restarts", "workers started beyond the first of each device",
			func(c *collector) uint64 { return c.WorkerRestarts }),
		integer("workers_stuck", "", "workers that the kernel does not let die",
			func(c *collector) int64 { return int64(c.WorkersStuck) }),
		counter("events", "asynchronous events read, of all devices", func(c *collector) uint64 { return c.Events }),
		maybe("delivery_ns_p50", "ns", "from the return of ibv_get_async_event to this process, p50 of the window",
			func(c *collector) (int64, bool) { return c.DeliveryP.P50, c.DeliveryP.Count > 0 }),
		maybe("delivery_ns_p99", "ns", "the same, p99",
			func(c *collector) (int64, bool) { return c.DeliveryP.P99, c.DeliveryP.Count > 0 }),
		maybe("worker_rss_bytes", "bytes", "resident memory of all workers together",
			func(c *collector) (int64, bool) { return clip(c.WorkerRSS), c.WorkerRSS > 0 || c.Workers == 0 }),
	}
}

func queueRows() []field[collector] {
	return []field[collector]{
		counter("merged_points", "points that went into a later one of their series; no event is lost by it",
			func(c *collector) uint64 { return c.queue.merged }),
		counter("dropped_points", "points that the shutdown deadline cut off",
			func(c *collector) uint64 { return c.queue.dropped }),
		counter("skipped_intervals", "intervals not emitted because Telegraf had not read the one before; the next "+
			"one covers both", func(c *collector) uint64 { return c.queue.skipped }),
		integer("queue_length", "", "points that wait for Telegraf or for the limit of points per second",
			func(c *collector) int64 { return int64(c.queue.length) }),
		integer("queue_capacity", "", "points above which all further ones merge",
			func(c *collector) int64 { return int64(c.queue.capacity) }),
	}
}

func usageRows() []field[collector] {
	return []field[collector]{
		integer("uptime_ns", "ns", "since the start, suspension included",
			func(c *collector) int64 { return c.usage.uptime }),
		maybe("cpu_ns", "ns", "processor time of this process",
			func(c *collector) (int64, bool) { return c.usage.cpu, c.usage.cpu > 0 }),
		maybe("rss_bytes", "bytes", "resident memory of this process",
			func(c *collector) (int64, bool) { return c.usage.rss, c.usage.rss > 0 }),
	}
}
