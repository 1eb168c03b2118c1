// Package grafana describes the files that Grafana imports: dashboards in its
// classic JSON model, and the alert rules of its file provisioning. It covers the
// parts that this project uses. Decoding is strict: a key that no type here has is
// an error.
package grafana
