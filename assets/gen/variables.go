package gen

import (
	"fmt"
	"slices"
	"strconv"

	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// These are the dashboards' identifiers, which are part of the addresses in links. Those for Prometheus have its name at
// the end, so that one Grafana can have both.
const (
	overviewUID = alerts.OverviewDashboard
	deviceUID   = alerts.DeviceDashboard
)

func (b *board) uid(of string) string {
	if b.engine == Prometheus {
		return of + "-prometheus"
	}
	return of
}

func (b *board) dataSource() *grafana.DataSource {
	return &grafana.DataSource{Type: string(b.engine), UID: "${datasource}"}
}

// everything is the value of All. It is a regular expression, because a list of
// all names would be too long for thousands of hosts. It matches what is not there, too.
const everything = ".*"

// places returns the variables for the location of the data. The data source has its database. If the policy does not
// exist, Grafana takes the first existing one.
func (b *board) places() []grafana.Variable {
	source := grafana.Variable{Name: "datasource", Label: "Data source", Type: "datasource", Query: string(b.engine), Refresh: 1}
	if uid := b.options.DataSource; uid != "" {
		source.Current = &grafana.Option{Text: uid, Value: uid}
	}
	if b.engine == Prometheus {
		return []grafana.Variable{source}
	}
	raw := b.options.Place.Raw
	return []grafana.Variable{source, {
		Name: "policy", Label: "Retention policy", Type: "query", DataSource: b.dataSource(), Refresh: 1,
		Query: "SHOW RETENTION POLICIES", Current: &grafana.Option{Text: raw, Value: raw},
	}}
}

// overviewVariables are the labels of places, and the hosts there.
func (b *board) overviewVariables() []grafana.Variable {
	all := b.places()
	var wider []string
	for _, label := range b.options.Labels {
		all = append(all, b.some(label, label, "rdma_collector", label, wider))
		wider = append(wider, label)
	}
	return append(all, b.some("host", "Host", "rdma_collector", "host", wider))
}

func (b *board) deviceVariables() []grafana.Variable {
	of := []string{"host", "device"}
	return append(b.places(),
		b.one("host", "Host", "rdma_device", "host", nil),
		b.one("device", "Device", "rdma_device", "device", of[:1]),
		b.some("port", "Port", "rdma_port", "port", of),
		b.some("vector", "Vector", "rdma_cq_probe", "vector", of))
}

// applications stands for the two measurements of which a host has at least one if it looks at applications.
const applications = "applications"

// inPrometheus has a series of each measurement that variables ask, as the begin of a selector.
var inPrometheus = map[string]string{
	"rdma_collector": "rdma_collector_uptime_seconds{", "rdma_device": "rdma_device_present{", "rdma_port": "rdma_port_state{",
	"rdma_cq_probe": "rdma_cq_probe_ok{", "rdma_fabric": "rdma_fabric_pairs{", applications: `{__name__=~"rdma_app_qps|rdma_app_async_unread",`,
}

// appVariables has the variables of the overview, and the devices and applications of the chosen hosts.
func (b *board) appVariables() []grafana.Variable {
	return append(b.overviewVariables(),
		b.some("device", "Device", "rdma_device", "device", b.tags),
		b.some("app", "Application", applications, "app", append(slices.Clone(b.tags), "device")))
}

// fabricVariables are the labels of places, the groups there, and their hosts.
func (b *board) fabricVariables() []grafana.Variable {
	all := b.places()
	var wider []string
	for _, label := range b.tags {
		title := label
		switch label {
		case "own_group":
			title = "Group"
		case "host":
			title = "Host"
		}
		all = append(all, b.some(label, title, "rdma_fabric", label, wider))
		wider = append(wider, label)
	}
	return all
}

// one returns a variable with the values of a tag in the series whose tags have the chosen values. The user chooses one of
// them.
func (b *board) one(name, label, measurement, tag string, chosen []string) grafana.Variable {
	v := grafana.Variable{Name: name, Label: label, Type: "query", DataSource: b.dataSource(), Refresh: 2, Sort: 7}
	if b.engine == Prometheus {
		filter := ""
		for i, c := range chosen {
			if i > 0 {
				filter += ","
			}
			filter += fmt.Sprintf(`%[1]s=~"$%[1]s"`, c)
		}
		v.Query = fmt.Sprintf("label_values(%s%s}, %s)", inPrometheus[measurement], filter, tag)
		return v
	}
	from := strconv.Quote(measurement)
	if measurement == applications {
		from = `"rdma_app", "rdma_app_async"`
	}
	v.Query = `SHOW TAG VALUES FROM ` + from + ` WITH KEY = "` + tag + `"`
	for i, c := range chosen {
		v.Query += []string{" WHERE ", " AND "}[min(i, 1)] + fmt.Sprintf(`%[1]q =~ /^$%[1]s$/`, c)
	}
	return v
}

// some returns a variable with the values of a tag. The user chooses any number of
// them.
func (b *board) some(name, label, measurement, tag string, chosen []string) grafana.Variable {
	v := b.one(name, label, measurement, tag, chosen)
	v.Multi, v.IncludeAll, v.AllValue = true, true, everything
	v.Current = &grafana.Option{Text: "All", Value: "$__all"}
	return v
}

// address returns the address of a dashboard with the same place of the data.
func (b *board) address(uid string) string {
	address := "/d/" + b.uid(uid) + "?var-datasource=${datasource}"
	if b.engine == InfluxDB {
		address += "&var-policy=${policy}"
	}
	return address
}

// link returns a link to a dashboard with the same place of the data and the same time.
func (b *board) link(title, uid, tooltip string) grafana.Link {
	return grafana.Link{
		Icon: "dashboard", KeepTime: true, Tags: []string{}, Title: title, Tooltip: tooltip, Type: "link", URL: b.address(uid),
	}
}

// toApps returns a link to what the applications of the chosen host experience.
func (b *board) toApps() grafana.Link {
	l := b.link("Applications", appsUID, "The applications of this host")
	l.URL += "&var-host=${host}"
	return l
}

// toRow returns the links from a table's row to the dashboards of its host, its device and its application.
func (b *board) toRow() map[string]grafana.DataLink {
	const host, device, when = "&var-host=${__data.fields.host}", "&var-device=${__data.fields.device}", "&${__url_time_range}"
	return map[string]grafana.DataLink{
		"host":   {Title: "Host", URL: b.address(hostUID) + host + when},
		"device": {Title: "Device", URL: b.address(deviceUID) + host + device + when},
		"app":    {Title: "Application", URL: b.address(appsUID) + host + device + "&var-app=${__data.fields.app:percentencode}" + when},
	}
}

// annotation marks moments in all panels. text and tags are columns of InfluxDB's answer, and fields of Loki's.
func (b *board) annotation(name, color, text, tags string, q query) grafana.Annotation {
	influxQL, promQL := q.text, q.prom
	a := grafana.Annotation{DataSource: *b.dataSource(), Enable: true, IconColor: color, Name: name}
	if b.engine == Prometheus && b.options.Loki != "" {
		return b.lokiAnnotation(a, text, tags, q.logs)
	}
	if b.engine == Prometheus {
		a.Expr, a.Step, a.TitleFormat, a.TagKeys = b.promQL(promQL), "60s", name, "host,device,port"
		return a
	}
	a.Target = &grafana.AnnotationTarget{
		RefID: "Anno", RawQuery: true, FromAnnotations: true, TextEditor: true, TextColumn: text, TagsColumn: tags,
		Query: b.influxQL(influxQL, ""),
	}
	return a
}

func (b *board) dashboard(uid, title, description, refresh string, links []grafana.Link, variables []grafana.Variable,
	annotations ...grafana.Annotation,
) *grafana.Dashboard {
	if annotations == nil {
		annotations = []grafana.Annotation{}
	}
	if b.engine == Prometheus {
		title += " (Prometheus)" // a folder of Grafana wants titles that differ
	}
	limitTimes(b.panels)
	return &grafana.Dashboard{
		UID: b.uid(uid), Title: title, Description: description, Tags: []string{"rdma"},
		SchemaVersion: grafana.SchemaVersion, Version: 1, Editable: true, GraphTooltip: 1, Refresh: refresh,
		Time: grafana.TimeRange{From: "now-1h", To: "now"}, Timezone: "browser",
		Annotations: grafana.Annotations{List: annotations},
		Templating:  grafana.Templating{List: variables}, Links: links, Panels: b.panels,
	}
}
