// Package alerts has cases of every alert that a host is judged by: what fires it and what must not. Each case is judged three times: by
// the plugin's own judgement of its host, by the rules for InfluxDB, and by those for Prometheus. They have to agree.
package alerts
