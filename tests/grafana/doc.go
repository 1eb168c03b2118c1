// Package grafana treats this project's dashboards and alert rules as Grafana
// does, so that tests of both need no Grafana. It puts variables, range and
// interval into queries. It evaluates rules: queries, reductions, math,
// thresholds, and the states pending and firing. It follows the source of
// Grafana, versions 11 to 13; each function names the part that it emulates.
package grafana
