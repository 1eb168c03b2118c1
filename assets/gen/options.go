package gen

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
)

// Engine is the database that has the metrics.
type Engine string

// The engines.
const (
	InfluxDB   Engine = "influxdb"
	Prometheus Engine = "prometheus"
)

// Options holds the settings that differ between sites.
type Options struct {
	// Docs is the address of a copy of the directory docs, which alerts link to. Without one they have no link:
	// Grafana and Alertmanager would take a relative address as their own.
	Docs string
	// Labels are the tags that say where a host is, as site and rack, from the widest to the narrowest. Alerts that
	// count ports do so in each place, and Alertmanager groups by the first two.
	Labels []string
	// Interval is the gathering interval of Telegraf's agent. "Now" is the time of three reports.
	Interval time.Duration
	// DataSource is the UID of the data source in Grafana. "" is rdma-influxdb; in the dashboards for Prometheus, the first one there.
	DataSource string
	// Loki is the UID of a Loki in Grafana from which the dashboards for Prometheus read points of single moments. "": they
	// show none.
	Loki string
	// Place is the database and retention policy in which an InfluxDB keeps the points.
	Place influxdb.Place
}

// Defaults returns the options of the files in this repository.
func Defaults() Options {
	return Options{Labels: []string{"site", "rack", "rail"}, Interval: 10 * time.Second, Place: influxdb.Own()}
}

// ErrOption is wrapped by the errors of Check.
var ErrOption = errors.New("is not allowed")

var (
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	// sourceUID has the form that Grafana accepts (pkg/util/shortid_generator.go).
	sourceUID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
)

// Check returns an error that names the first option with which no files can be made. It wraps ErrOption.
func (o *Options) Check() error {
	if o.Docs != "" {
		u, err := url.Parse(o.Docs)
		if err != nil || !u.IsAbs() || u.Host == "" {
			return fmt.Errorf("-docs %q %w: want an absolute address, as in https://git.example.com/rdma_events/docs", o.Docs, ErrOption)
		}
	}
	for i, label := range o.Labels {
		switch {
		case !labelName.MatchString(label):
			return fmt.Errorf("-labels: %q %w: want names of letters, digits and _, separated by commas", label, ErrOption)
		case isTag(label):
			return fmt.Errorf("-labels: %q %w: the plugin has a tag of that name", label, ErrOption)
		case slices.Contains(o.Labels[:i], label):
			return fmt.Errorf("-labels: %q twice %w", label, ErrOption)
		}
	}
	if o.Interval < time.Second || o.Interval%time.Second != 0 {
		return fmt.Errorf("-interval %s %w: want whole seconds, 1s or more", o.Interval, ErrOption)
	}
	for flag, uid := range map[string]string{"datasource": o.DataSource, "loki": o.Loki} {
		if uid != "" && !sourceUID.MatchString(uid) {
			return fmt.Errorf("-%s %q %w: want the UID of a data source in Grafana", flag, uid, ErrOption)
		}
	}
	return nil
}

// isTag reports whether a measurement has a tag of that name, or Telegraf adds one.
func isTag(name string) bool {
	for _, m := range measure.All() {
		if slices.ContainsFunc(m.Tags, func(t measure.Tag) bool { return t.Name == name }) {
			return true
		}
	}
	return slices.Contains([]string{"host", "instance", "plugin_instance", "le", "job"}, name)
}

// source returns the UID of the InfluxDB that the alert rules ask.
func (o *Options) source() string { return cmp.Or(o.DataSource, "rdma-influxdb") }

// window is the time range of a rule for current values.
func (o *Options) window() time.Duration { return max(3*time.Minute, 3*o.Interval) }

// recent is the time range of a panel for current values, and how long a plugin may be silent.
func (o *Options) recent() time.Duration { return max(5*time.Minute, 3*o.Interval) }

// grouped returns the labels by which Alertmanager groups: a fault of a switch touches one place, and may touch all
// rails of it.
func (o *Options) grouped() []string { return o.Labels[:min(2, len(o.Labels))] }

// runbook returns the address of a rule's chapter, or "".
func (o *Options) runbook(id string) string {
	if o.Docs == "" {
		return ""
	}
	return strings.TrimSuffix(o.Docs, "/") + "/reference/alerts.md#" + id
}

// inInfluxQL returns the labels as the beginning of a list of tags.
func (o *Options) inInfluxQL() string {
	var b strings.Builder
	for _, label := range o.Labels {
		fmt.Fprintf(&b, "%q, ", label)
	}
	return b.String()
}

// inPromQL returns the labels as a list.
func (o *Options) inPromQL() string { return strings.Join(o.Labels, ", ") }
