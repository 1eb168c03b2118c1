package gen

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/internal/telemetry/measure"
)

// lokiJob is the label job of all streams that loki.conf writes.
const lokiJob = "rdma_events"

// logQuery asks a Loki for the points of a measurement of single moments. In a Loki the host and the labels of places are
// labels of a stream, and all other tags and fields are in the line.
type logQuery struct {
	measurement string
	// filters are conditions on tags and fields in LogQL. Conditions of the dashboard's own variables are added.
	filters []string
}

// These are filters by the variables of a dashboard.
const (
	logsOfPorts  = `port=~"$port"`
	logsOrDevice = `port=~"($port)?"` // points about the whole device have no port
	logsOfApps   = `app=~"$app"`
)

// hasMoments reports whether the dashboards can show points of single moments. Prometheus has none, so its dashboards need
// a Loki.
func (b *board) hasMoments() bool { return b.engine == InfluxDB || b.options.Loki != "" }

// logQL returns the query in LogQL. The dashboard's filters on hosts and places select streams.
func (b *board) logQL(q *logQuery) string {
	stream := []string{fmt.Sprintf("job=%q", lokiJob), fmt.Sprintf("measurement=%q", q.measurement)}
	var lines []string
	for _, tag := range b.tags {
		condition := fmt.Sprintf(`%[1]s=~"$%[1]s"`, tag)
		if tag == "host" || slices.Contains(b.options.Labels, tag) {
			stream = append(stream, condition)
		} else {
			lines = append(lines, condition)
		}
	}
	text := "{" + strings.Join(stream, ",") + "} | logfmt"
	for _, condition := range append(lines, q.filters...) {
		text += " | " + condition
	}
	return text
}

// lokiSource returns the data source of single moments.
func (b *board) lokiSource() *grafana.DataSource {
	return &grafana.DataSource{Type: "loki", UID: b.options.Loki}
}

// lokiTarget returns the query of a table for the last lines.
func (b *board) lokiTarget(q *logQuery, lines int) grafana.Target {
	return grafana.Target{DataSource: b.lokiSource(), Expr: b.logQL(q), QueryType: "range", MaxLines: lines}
}

// lokiColumns returns the transformations that turn labels of Loki's lines into the columns of a table, and columns with a unit into
// numbers. They leave out all other labels, such as detected_level, which Loki adds.
func lokiColumns(columns []column) []grafana.Transform {
	shown := []string{"Time"}
	for _, c := range columns {
		shown = append(shown, c.name)
	}
	all := []grafana.Transform{
		{ID: "extractFields", Options: map[string]any{"source": "labels", "format": "auto", "replace": true, "keepTime": true}},
		{ID: "filterFieldsByName", Options: map[string]any{"include": map[string]any{"names": shown}}},
	}
	var conversions []map[string]any
	for _, c := range columns {
		if c.unit != "" {
			conversions = append(conversions, map[string]any{"targetField": c.name, "destinationType": "number"})
		}
	}
	if conversions != nil {
		all = append(all, grafana.Transform{ID: "convertFieldType", Options: map[string]any{"fields": map[string]any{}, "conversions": conversions}})
	}
	return all
}

// lokiAnnotation makes an annotation read its points from a Loki. text is the tag or field that is shown, and tags are
// the ones that are shown as tags.
func (b *board) lokiAnnotation(a grafana.Annotation, text, tags string, q *logQuery) grafana.Annotation {
	return grafana.Annotation{
		DataSource: *b.lokiSource(), Enable: a.Enable, IconColor: a.IconColor, Name: a.Name,
		Expr: b.logQL(q), TitleFormat: a.Name, TextFormat: "{{" + text + "}}", TagKeys: tags,
	}
}

// lokiFile returns the Telegraf configuration that writes the points of single moments to a Loki.
func lokiFile(o *Options, metrics []measure.Metric) []byte {
	moments := []string{"rdma_problem"}
	for _, m := range metrics {
		if m.Emitted == measure.AsItHappens {
			moments = append(moments, m.Name)
		}
	}
	slices.Sort(moments)
	return []byte(strings.NewReplacer(
		"{{moments}}", quotedList("  ", moments), "{{labels}}", quotedList("  ", append([]string{"host", "instance"}, o.Labels...)), "{{job}}", lokiJob,
	).Replace(lokiTemplate))
}

const lokiTemplate = `# Writes the plugin's single moments (events, port changes, causes, problems) to a Loki, made by rdma-events assets. It goes
# beside the [[inputs.execd]] that runs rdma-events, with or without another output. docs/how-to/prometheus.md explains it.

# Each moment becomes a line of Loki, in addition to the original point. Only the host and its place are labels of a stream,
# since each combination of labels is a stream, and Loki wants few of them.
[[processors.starlark]]
  order = 90
  namepass = {{moments}}
  source = '''
LABELS = {{labels}}

def apply(metric):
  line = Metric("loki_rdma_events")
  line.time = metric.time
  line.tags["job"] = "{{job}}"
  line.tags["measurement"] = metric.name
  for key, value in metric.tags.items():
    if key in LABELS:
      line.tags[key] = value
    else:
      line.fields[key] = quoted(value)
  for key, value in metric.fields.items():
    line.fields[key] = quoted(value) if type(value) == "string" else value
  return [metric, line]

# quoted returns a text that can stand between the quotes of logfmt.
def quoted(text):
  return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
'''

# The other outputs must not have these lines. Give them namedrop = ["loki_*"], unless they have a namepass.
[[outputs.loki]]
  domain = "http://127.0.0.1:3100"
  # A Loki wants a tenant unless its configuration has auth_enabled: false.
  # http_headers = {"X-Scope-OrgID" = "rdma"}
  namepass = ["loki_rdma_events"]
  # The label measurement has the name.
  metric_name_label = ""
`
