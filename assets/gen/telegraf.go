package gen

import (
	"bytes"
	_ "embed" // for the template
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

//go:embed telegraf.conf.tmpl
var telegrafTemplate string

// tables are the lists of the template.
type tables struct {
	Expires  time.Duration
	Moments  []string            // measurements of single moments
	Counters map[string][]string // fields by measurement
	Labels   map[string][]family // by measurement
	NoEvents map[string][]string // the other fields of measurements with one for each type of event
	Gauges   []string            // series names
}

// family is a series of the value 1 whose labels are strings of a measurement.
type family struct {
	Name   string
	Fields []string
}

// labelFamilies returns the string fields that become labels. It leaves out the fields in unlabelled.
func labelFamilies() map[string][]family {
	return map[string][]family{
		"rdma_device": {
			{"info", []string{
				"driver", "fw_ver", "board_id", "pci_address", "node_guid", "sys_image_guid", "transport", "numa_node", "is_vf",
				"ports", "vectors", "events_supported",
			}},
			{"status", []string{"worker_state", "reason"}},
		},
		"rdma_port":        {{"info", []string{"link_layer", "netdev", "width", "cable"}}},
		"rdma_cq_probe":    {{"status", []string{"status"}}},
		"rdma_command":     {{"status", []string{"status"}}},
		"rdma_fabric_port": {{"info", []string{"list"}}, {"status", []string{"verdict"}}},
		"rdma_fabric_peer": {{"status", []string{"verdict", "direction", "state", "reason"}}},
		"rdma_app_hang":    {{"info", []string{"pid", "tid", "number", "unit", "proof"}}},
		"rdma_tracer":      {{"info", []string{"hooks"}}, {"status", []string{"worker_state", "reason"}}},
	}
}

// unlabelled are the strings that Prometheus does not get: another field has the number of some, and dashboards know the
// others by the alert's ID.
var unlabelled = []string{"state_name", "phys_state_name", "expected_missing_of", "text", "do"}

// telegrafFile returns the Telegraf configuration that gives the metrics the names, units and types that
// Prometheus expects.
func telegrafFile(o *Options, metrics []measure.Metric) ([]byte, error) {
	t := tables{
		Expires: 3 * o.Interval, Counters: map[string][]string{}, Labels: labelFamilies(),
		NoEvents: map[string][]string{"rdma_async": nil, "rdma_app_async": nil},
	}
	for i := range metrics {
		m := &metrics[i]
		switch {
		case m.Emitted == measure.AsItHappens:
			t.Moments = append(t.Moments, m.Name)
			continue
		case m.Name == "rdma_cq_probe_histogram":
			continue
		}
		for _, f := range m.Fields {
			if err := t.add(m, f); err != nil {
				return nil, err
			}
		}
		for _, family := range t.Labels[m.Name] {
			t.Gauges = append(t.Gauges, m.Name+"_"+family.Name)
		}
	}
	slices.Sort(t.Gauges)
	var b bytes.Buffer
	tmpl, err := template.New("telegraf.conf").Funcs(template.FuncMap{"list": quotedList}).Parse(telegrafTemplate)
	if err == nil {
		err = tmpl.Execute(&b, t)
	}
	if err != nil {
		return nil, fmt.Errorf("fill in template: %w", err)
	}
	return b.Bytes(), nil
}

func (t *tables) add(m *measure.Metric, f measure.Field) error {
	_, ofEvents := t.NoEvents[m.Name]
	if ofEvents && !isEvent(f.Name) {
		t.NoEvents[m.Name] = append(t.NoEvents[m.Name], f.Name)
	}
	labelled := slices.ContainsFunc(t.Labels[m.Name], func(l family) bool { return slices.Contains(l.Fields, f.Name) })
	switch {
	case labelled, slices.Contains(unlabelled, f.Name), strings.HasSuffix(f.Name, "_rate"):
	case f.Kind == measure.String:
		return fmt.Errorf("%s.%s is a string and in no family of labels", m.Name, f.Name)
	case ofEvents && isEvent(f.Name): // the script makes one family of them
	case f.Cumulative:
		t.Counters[m.Name] = append(t.Counters[m.Name], f.Name)
	default:
		t.Gauges = append(t.Gauges, m.Name+"_"+prometheusName(f.Name))
	}
	return nil
}

// isEvent reports whether a field counts the events of a type.
func isEvent(field string) bool {
	_, ok := verbs.ParseEventType(field)
	return ok || field == "unknown_<number>"
}

// prometheusName returns the name of a gauge's field in the units of Prometheus, as the script of the template does.
func prometheusName(field string) string {
	if field == "mtu" {
		return "mtu_bytes"
	}
	if before, ok := strings.CutSuffix(field, "_gbps"); ok {
		return before + "_bytes_per_second"
	}
	if before, after, ok := strings.Cut(field, "_ns"); ok {
		return before + after + "_seconds"
	}
	return field
}

// quotedList returns names as a list of TOML or Starlark in lines of limited length.
func quotedList(indent string, names []string) string {
	const width = 110
	var b strings.Builder
	column := 0
	for i, name := range names {
		item := fmt.Sprintf("%q", name)
		if i < len(names)-1 {
			item += ", "
		}
		if column == 0 || column+len(item) > width {
			b.WriteString("\n" + indent)
			column = len(indent)
		}
		b.WriteString(item)
		column += len(item)
	}
	return "[" + strings.ReplaceAll(b.String(), " \n", "\n") + "\n" + indent[:max(0, len(indent)-2)] + "]"
}
