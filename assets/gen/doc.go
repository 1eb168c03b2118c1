// Package gen makes the files for those who keep and watch the plugin's metrics: dashboards, alert
// rules and configurations for InfluxDB and for Prometheus. It takes all names from the plugin's
// table of metrics: a name that the table lacks, or a unit that Grafana lacks, is an error.
//
// rdma-events assets writes these files for one site. Those of this repository are made with the
// defaults.
package gen

//go:generate go run ../../cmd/rdma-events assets -engine influxdb -out ..
//go:generate go run ../../cmd/rdma-events assets -engine prometheus -out ../prometheus
//go:generate cp ../prometheus/telegraf.conf ../../packaging/kubernetes/components/prometheus/output.conf
//go:generate cp ../prometheus/prometheusrule.yaml ../../packaging/kubernetes/components/prometheus/prometheusrule.yaml
//go:generate go run ./alertsdoc ../../docs/reference/alerts.md
