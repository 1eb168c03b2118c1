package gen

import (
	"fmt"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
)

// File is a file to be written. Path is relative to the directory that the user names.
type File struct {
	Path string
	Text []byte
}

// Files returns the files for an engine. The error wraps ErrOption if the options are wrong.
func Files(e Engine, o Options, metrics []measure.Metric) ([]File, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	switch e {
	case InfluxDB:
		return forInfluxDB(&o, metrics)
	case Prometheus:
		return forPrometheus(&o, metrics)
	}
	return nil, fmt.Errorf("-engine %q %w: want %s or %s", e, ErrOption, InfluxDB, Prometheus)
}

// document is a file whose text may fail to be made.
type document struct {
	path string
	text func() ([]byte, error)
}

func makeFiles(documents ...document) ([]File, error) {
	files := make([]File, 0, len(documents))
	for _, d := range documents {
		text, err := d.text()
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", d.path, err)
		}
		files = append(files, File{Path: d.path, Text: text})
	}
	return files, nil
}

func forInfluxDB(o *Options, metrics []measure.Metric) ([]File, error) {
	n := newNames(metrics)
	files, err := makeFiles(
		document{"dashboards/overview.json", func() ([]byte, error) { return overviewDashboard(n, InfluxDB, o).Marshal() }},
		document{"dashboards/host.json", func() ([]byte, error) { return hostDashboard(n, InfluxDB, o).Marshal() }},
		document{"dashboards/device.json", func() ([]byte, error) { return deviceDashboard(n, InfluxDB, o).Marshal() }},
		document{"dashboards/applications.json", func() ([]byte, error) { return appsDashboard(n, InfluxDB, o).Marshal() }},
		document{"dashboards/fabric.json", func() ([]byte, error) { return fabricDashboard(n, InfluxDB, o).Marshal() }},
		document{"alerts/rdma_events.yaml", func() ([]byte, error) { return ruleFile(n, o) }},
		document{"datasources/rdma_events.yaml", func() ([]byte, error) { return dataSourceFile(o), nil }},
		document{"influxdb/downsampling.influxql", func() ([]byte, error) { return downsampling(o.Place, metrics), nil }},
	)
	files = append(files, databaseOutput(o.Place))
	if err == nil {
		err = n.err()
	}
	return files, err
}

// databaseOutput returns the Telegraf configuration that writes the points to their place.
func databaseOutput(place influxdb.Place) File {
	path, to, policy := "own-database.conf", "their own database, which assets/influxdb/downsampling.influxql creates", ""
	if place.Shared {
		path, to = "shared-database.conf", "a retention policy of their own, which influxdb/downsampling.influxql creates"
		policy = fmt.Sprintf("  retention_policy = %q\n", place.Raw)
	}
	return File{Path: "telegraf/" + path, Text: fmt.Appendf(nil, `# Writes the plugin's points to %s.
# Exclude these points from your other outputs with namedrop = ["rdma_*"].
[[outputs.influxdb]]
  urls = ["http://127.0.0.1:8086"]
  database = %q
%s  # Telegraf would create the database without the retention policies.
  skip_database_creation = true
  namepass = ["rdma_*"]
`, to, place.Database, policy)}
}

func forPrometheus(o *Options, metrics []measure.Metric) ([]File, error) {
	n := newNames(metrics)
	files, err := makeFiles(
		document{"dashboards/overview.json", func() ([]byte, error) { return overviewDashboard(n, Prometheus, o).Marshal() }},
		document{"dashboards/host.json", func() ([]byte, error) { return hostDashboard(n, Prometheus, o).Marshal() }},
		document{"dashboards/device.json", func() ([]byte, error) { return deviceDashboard(n, Prometheus, o).Marshal() }},
		document{"dashboards/applications.json", func() ([]byte, error) { return appsDashboard(n, Prometheus, o).Marshal() }},
		document{"dashboards/fabric.json", func() ([]byte, error) { return fabricDashboard(n, Prometheus, o).Marshal() }},
		document{"telegraf.conf", func() ([]byte, error) { return telegrafFile(o, metrics) }},
		document{"loki.conf", func() ([]byte, error) { return lokiFile(o, metrics), nil }},
		document{"rules.yml", func() ([]byte, error) { return promRules(o) }},
		document{"prometheusrule.yaml", func() ([]byte, error) { return promObject(o) }},
		document{"prometheus.yml", func() ([]byte, error) { return []byte(prometheusFile), nil }},
		document{"alertmanager.yml", func() ([]byte, error) { return alertmanagerFile(o) }},
	)
	if err == nil {
		err = n.err()
	}
	return files, err
}

// dataSourceFile returns the data source of the alert rules.
func dataSourceFile(o *Options) []byte {
	return fmt.Appendf(nil, `# The data source of the alert rules, for Grafana's file provisioning, made by rdma-events assets.
# Enter the address of your InfluxDB.
apiVersion: 1
datasources:
  - name: RDMA events
    uid: %s
    type: influxdb
    access: proxy
    url: http://127.0.0.1:8086
    jsonData:
      dbName: %s
      httpMode: POST
`, o.source(), o.Place.Database)
}

// policyOf returns the prefix of a rule's measurements, their retention policy. A
// rule has no variables, and Grafana's data source names only the database. In the
// plugin's own database the default policy has the raw points, in a shared
// database it does not.
func policyOf(place influxdb.Place) string {
	if !place.Shared {
		return ""
	}
	return `"` + place.Raw + `".`
}
