package gen

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/internal/telemetry/measure"
)

var (
	logMeasurement = regexp.MustCompile(`measurement="(\w+)"`)
	logCondition   = regexp.MustCompile(`\| (\w+)(?:=~|!=|=)"`)
)

// Each annotation of the dashboards for InfluxDB has its twin for Loki, and each table of single moments.
func TestMomentsOfPrometheusComeFromLoki(t *testing.T) {
	o := Defaults()
	o.Loki = "my-loki"
	n := newNames(measure.All())
	annotations, tables := 0, map[string][]string{}
	for _, board := range []func(*names, Engine, *Options) *grafana.Dashboard{overviewDashboard, deviceDashboard, appsDashboard} {
		twins := map[int]*grafana.Panel{}
		for _, p := range board(n, InfluxDB, &o).All() {
			twins[p.ID] = &p
		}
		d := board(n, Prometheus, &o)
		for _, a := range d.Annotations.List {
			require.Equal(t, grafana.DataSource{Type: "loki", UID: "my-loki"}, a.DataSource, a.Name)
			requireLogNames(t, a.Expr)
			require.NotEmpty(t, a.TextFormat, a.Name)
			annotations++
		}
		for _, p := range d.All() {
			for _, target := range p.Targets {
				if target.DataSource.Type != "loki" {
					continue
				}
				requireLogNames(t, target.Expr)
				require.Equal(t, "extractFields", p.Transformations[slices.IndexFunc(p.Transformations, func(t grafana.Transform) bool { return t.ID != "sortBy" })].ID,
					"%s: labels become columns", p.Title)
				tables[d.UID] = append(tables[d.UID], p.Title)
				requireColumns(t, &p, twins[p.ID])
			}
		}
	}
	require.Equal(t, 5, annotations)
	require.Equal(t, map[string][]string{
		"rdma-events-fleet-prometheus":        {"Causes"},
		"rdma-events-device-prometheus":       {"Evidence", "Port changes", "Events"},
		"rdma-events-applications-prometheus": {"Error events"},
	}, tables)
}

// requireColumns requires that a table for Loki has the columns and units of the same table for InfluxDB, because Loki stores points
// as the plugin writes them, and that it has no other column.
func requireColumns(t *testing.T, p, twin *grafana.Panel) {
	t.Helper()
	units := func(p *grafana.Panel) map[any]any {
		all := map[any]any{}
		for _, o := range p.FieldConfig.Overrides {
			for _, property := range o.Properties {
				if property.ID == "unit" {
					all[o.Matcher.Options] = property.Value
				}
			}
		}
		return all
	}
	options := func(p *grafana.Panel, id string) map[string]any {
		i := slices.IndexFunc(p.Transformations, func(t grafana.Transform) bool { return t.ID == id })
		require.GreaterOrEqual(t, i, 0, "%s has no %s", p.Title, id)
		return p.Transformations[i].Options
	}
	require.Equal(t, units(twin), units(p), p.Title)
	require.Equal(t, options(twin, "organize"), options(p, "organize"), p.Title)
	shown := options(p, "filterFieldsByName")["include"].(map[string]any)["names"]
	var columns []string
	for name := range options(twin, "organize")["indexByName"].(map[string]any) {
		columns = append(columns, name)
	}
	require.Subset(t, append(columns, "Time"), shown, p.Title)
	require.Subset(t, shown, columns, p.Title)
}

// requireLogNames requires that a query names a measurement of loki.conf, and tags and fields of it.
func requireLogNames(t *testing.T, expr string) {
	t.Helper()
	name := logMeasurement.FindStringSubmatch(expr)
	require.NotNil(t, name, expr)
	all := measure.All()
	i := slices.IndexFunc(all, func(m measure.Metric) bool { return m.Name == name[1] && m.Emitted == measure.AsItHappens })
	require.GreaterOrEqual(t, i, 0, "%s is not a moment: %s", name[1], expr)
	for _, condition := range logCondition.FindAllStringSubmatch(expr, -1) {
		_, field := all[i].Field(condition[1])
		tag := slices.ContainsFunc(all[i].Tags, func(t measure.Tag) bool { return t.Name == condition[1] })
		require.True(t, tag || field, "%s has no %s: %s", name[1], condition[1], expr)
	}
}
