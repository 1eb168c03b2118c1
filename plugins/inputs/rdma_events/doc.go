// Package rdma_events is the Telegraf input plugin. It parses and checks the options,
// starts and stops the parts, and connects internal/monitor, which returns points as
// plain values, to internal/emit, which passes them to Telegraf one at a time.
//
// Telegraf may stop reading at any time. So no goroutine that reads events ever calls the
// accumulator. One other goroutine does, behind a queue that merges points of one series
// rather than grow or drop points.
package rdma_events
