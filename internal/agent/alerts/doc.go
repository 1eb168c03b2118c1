// Package alerts contains the table of all alerts: the condition of each alert, how long the condition must hold, its
// texts and the first steps. The table is data. [rdma_events/internal/agent/health] evaluates it for one host.
// [rdma_events/assets/gen] generates the rules in InfluxQL and PromQL, the documents and the help from it.
//
// A new alert needs a row here, its cases in tests/alerts, and a line in the changelog.
package alerts
