// Package rdma_events is the Telegraf input plugin: options, life cycle, the
// one table of metrics, and the emitter that hands points to Telegraf one at a
// time. What the points say comes from internal/monitor as plain values.
//
// Telegraf may stop reading at any time. So nothing that reads events ever
// calls the accumulator: one goroutine does, behind a queue that merges points
// of one series rather than grow or drop.
package rdma_events
