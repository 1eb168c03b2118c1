package gen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"rdma_events/internal/telemetry/measure"
)

// names looks up names in the table of metrics. It remembers the names that are
// missing, so that descriptions of panels need no error handling.
type names struct {
	metrics map[string]measure.Metric
	missing []error
}

func newNames(metrics []measure.Metric) *names {
	n := &names{metrics: make(map[string]measure.Metric, len(metrics))}
	for _, m := range metrics {
		n.metrics[m.Name] = m
	}
	return n
}

// err returns an error for each name or unit that was not found.
func (n *names) err() error { return errors.Join(n.missing...) }

// unit returns Grafana's name of a field's unit. name is measurement.field.
func (n *names) unit(name string) string {
	measurement, field, _ := strings.Cut(name, ".")
	metric := n.metrics[measurement]
	f, ok := metric.Field(field)
	if !ok {
		n.missing = append(n.missing, fmt.Errorf("the table of metrics has no %s", name))
		return ""
	}
	switch f.Unit {
	case "":
		return "short"
	case "ns":
		return "ns"
	case "bytes":
		return "bytes"
	case "Gbit/s":
		return "Gbits"
	}
	n.missing = append(n.missing, fmt.Errorf("no unit of Grafana's for %q of %s", f.Unit, name))
	return ""
}

var placeholder = regexp.MustCompile(`\{([a-z]\w*)\}`)

// expand replaces {measurement} in a query by the measurement's full name,
// {filter} by the conditions and {labels} by tags, each followed by a comma.
func (n *names) expand(query, source, filter, labels string) string {
	query = strings.Join(strings.Fields(query), " ")
	return placeholder.ReplaceAllStringFunc(query, func(s string) string {
		name := strings.Trim(s, "{}")
		switch name {
		case "filter":
			return filter
		case "labels":
			return labels
		}
		if _, ok := n.metrics[name]; !ok {
			n.missing = append(n.missing, fmt.Errorf("the table of metrics has no %s", name))
		}
		return source + `"` + name + `"`
	})
}
