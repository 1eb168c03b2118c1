// Package grafana describes what Grafana imports: dashboards in its classic
// JSON, and the alert rules of its file provisioning. It knows as much of both
// as this project uses; decoding is strict, so that a file with a key that no
// type here names is an error.
package grafana
