// Package rdma_events is the Telegraf input plugin. It connects internal/agent to Telegraf's interfaces.
package rdma_events
