package gen

import (
	"rdma_events/assets/grafana"
)

// These are the dashboards' identifiers, which are part of the addresses in links.
const (
	fleetUID  = "rdma-events-fleet"
	deviceUID = "rdma-events-device"
)

func dataSource() *grafana.DataSource {
	return &grafana.DataSource{Type: "influxdb", UID: "${datasource}"}
}

// everything is the value of All. It is a regular expression, because a list of
// all names would be too long for thousands of hosts.
const everything = ".*"

// places returns the variables for the location of the data. If the database or
// the policy does not exist, Grafana takes the first existing one.
func places(o *Options) []grafana.Variable {
	place := o.Place
	return []grafana.Variable{
		o.datasource(),
		{
			Name: "database", Label: "Database", Type: "query", DataSource: dataSource(), Refresh: 1,
			Query: "SHOW DATABASES", Regex: "/^(?!_internal$).*$/",
			Current: &grafana.Option{Text: place.Database, Value: place.Database},
		},
		{
			Name: "policy", Label: "Retention policy", Type: "query", DataSource: dataSource(), Refresh: 1,
			Query:   `SHOW RETENTION POLICIES ON "$database"`,
			Current: &grafana.Option{Text: place.Raw, Value: place.Raw},
		},
	}
}

// datasource returns the variable for the data source. Grafana takes the first of the type if the chosen one is not
// there.
func (o *Options) datasource() grafana.Variable {
	v := grafana.Variable{Name: "datasource", Label: "Data source", Type: "datasource", Query: "influxdb", Refresh: 1}
	if o.DataSource != "" {
		v.Current = &grafana.Option{Text: o.DataSource, Value: o.DataSource}
	}
	return v
}

// one returns a variable with the values of a tag. The user chooses one of them.
func one(name, label, measurement, tag, where string) grafana.Variable {
	query := `SHOW TAG VALUES ON "$database" FROM "` + measurement + `" WITH KEY = "` + tag + `"`
	if where != "" {
		query += " WHERE " + where
	}
	return grafana.Variable{
		Name: name, Label: label, Type: "query", DataSource: dataSource(), Query: query, Refresh: 2, Sort: 7,
	}
}

// some returns a variable with the values of a tag. The user chooses any number of
// them.
func some(name, label, measurement, tag, where string) grafana.Variable {
	v := one(name, label, measurement, tag, where)
	v.Multi, v.IncludeAll, v.AllValue = true, true, everything
	v.Current = &grafana.Option{Text: "All", Value: "$__all"}
	return v
}

// link returns a link to a dashboard with the same data source, database, policy
// and time.
func link(title, uid, tooltip string) grafana.Link {
	return grafana.Link{
		Icon: "dashboard", KeepTime: true, Tags: []string{}, Title: title, Tooltip: tooltip, Type: "link",
		URL: "/d/" + uid + "?var-datasource=${datasource}&var-database=${database}&var-policy=${policy}",
	}
}

// deviceLink is the link from a table's row to the dashboard of the row's device.
const deviceLink = "/d/" + deviceUID + "?var-datasource=${datasource}&var-database=${database}&var-policy=${policy}" +
	"&var-host=${__data.fields.host}&var-device=${__data.fields.device}&${__url_time_range}"

func dashboard(uid, title, description, refresh string, links []grafana.Link, variables []grafana.Variable,
	panels []grafana.Panel, annotations ...grafana.Annotation,
) *grafana.Dashboard {
	if annotations == nil {
		annotations = []grafana.Annotation{}
	}
	return &grafana.Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{"rdma"},
		SchemaVersion: grafana.SchemaVersion, Version: 1, Editable: true, GraphTooltip: 1, Refresh: refresh,
		Time: grafana.TimeRange{From: "now-1h", To: "now"}, Timezone: "browser",
		Annotations: grafana.Annotations{List: annotations},
		Templating:  grafana.Templating{List: variables}, Links: links, Panels: panels,
	}
}
