// Package rdma_events is the Telegraf input plugin: it is internal/agent, as Telegraf calls it.
package rdma_events
