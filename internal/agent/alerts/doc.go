// Package alerts is the one table of what counts as a problem: each alert with its condition, how long the condition has to
// hold, its texts and the first steps. The table is data. [rdma_events/internal/agent/health] judges a host by it, and
// [rdma_events/assets/gen] writes the same conditions in InfluxQL and PromQL, the documents and the help.
//
// A new alert is a row here, its cases in tests/alerts, and a line of the changelog.
package alerts
