package grafana

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"
	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/internal/telemetry/measure"
)

// anyChoice is a value for each variable, for queries that are only parsed.
var anyChoice = Choice{
	"policy": {"raw"}, "host": {"h"}, "device": {"d"}, "port": {"1"}, "vector": {"0"}, "app": {"a"}, "own_group": {"g"},
}

// metricsByName returns the table of metrics by measurement.
func metricsByName() map[string]measure.Metric {
	all := map[string]measure.Metric{}
	for _, m := range measure.All() {
		all[m.Name] = m
	}
	return all
}

// unknownNames parses an InfluxQL query and returns the names in it that are not in the table of metrics.
func unknownNames(t *testing.T, query string) []string {
	t.Helper()
	parsed, err := influxql.ParseQuery(query)
	require.NoError(t, err, query)
	var missing []string
	for _, s := range parsed.Statements {
		switch s := s.(type) {
		case *influxql.SelectStatement:
			missing = append(missing, unknownInSelect(s)...)
		case *influxql.ShowTagValuesStatement:
			missing = append(missing, unknownInShow(s)...)
		case *influxql.ShowRetentionPoliciesStatement:
		default:
			missing = append(missing, fmt.Sprintf("statement %T", s))
		}
	}
	return missing
}

// unknownInSelect returns the names in a statement that its sources do not offer.
// A measurement offers its fields and tags, a subquery its columns and grouping
// tags.
func unknownInSelect(s *influxql.SelectStatement) []string {
	var missing []string
	offered := []string{"time"}
	for _, source := range s.Sources {
		switch source := source.(type) {
		case *influxql.Measurement:
			names, ok := namesOf(source.Name)
			if !ok {
				missing = append(missing, source.Name)
			}
			offered = append(offered, names...)
		case *influxql.SubQuery:
			missing = append(missing, unknownInSelect(source.Statement)...)
			offered = append(offered, source.Statement.ColumnNames()...)
			_, dimensions := source.Statement.Dimensions.Normalize()
			offered = append(offered, dimensions...)
		}
	}
	influxql.WalkFunc(s.Fields, func(n influxql.Node) { missing = append(missing, notIn(offered, n)...) })
	influxql.WalkFunc(s.Dimensions, func(n influxql.Node) { missing = append(missing, notIn(offered, n)...) })
	if s.Condition != nil {
		influxql.WalkFunc(s.Condition, func(n influxql.Node) { missing = append(missing, notIn(offered, n)...) })
	}
	return missing
}

func notIn(offered []string, n influxql.Node) []string {
	if ref, ok := n.(*influxql.VarRef); ok && !slices.Contains(offered, ref.Val) {
		return []string{ref.Val}
	}
	return nil
}

// namesOf returns the names of the fields and tags of a measurement. Telegraf adds
// the tag host; instance is the tag that differs between several plugins of a host; site, rack and
// rail are the defaults of rdma-events assets -labels.
func namesOf(measurement string) ([]string, bool) {
	m, ok := metricsByName()[measurement]
	names := []string{"host", "instance", "site", "rack", "rail"}
	if measurement == "infiniband" { // of Telegraf's input of that name
		return append(names, "device", "port", "port_rcv_data", "port_xmit_data", "port_xmit_discards", "symbol_error"), true
	}
	for _, f := range m.Fields {
		names = append(names, f.Name)
	}
	for _, tag := range m.Tags {
		names = append(names, tag.Name)
	}
	return names, ok
}

func unknownInShow(s *influxql.ShowTagValuesStatement) []string {
	var missing []string
	var offered []string
	for _, source := range s.Sources {
		names, ok := namesOf(source.(*influxql.Measurement).Name)
		if !ok {
			missing = append(missing, source.String())
		}
		offered = append(offered, names...)
	}
	if name, ok := s.TagKeyExpr.(*influxql.StringLiteral); ok && !slices.Contains(offered, name.Val) {
		missing = append(missing, name.Val)
	}
	if s.Condition != nil {
		influxql.WalkFunc(s.Condition, func(n influxql.Node) { missing = append(missing, notIn(offered, n)...) })
	}
	return missing
}

func TestEveryNameInDashboardsStandsInTheTableOfMetrics(t *testing.T) {
	boards, err := Dashboards(root)
	require.NoError(t, err)
	require.Len(t, boards, 5)
	for uid, d := range boards {
		requests, err := Requests(d, anyChoice, Range{historyStart(), historyStart().Add(time.Hour)})
		require.NoError(t, err)
		require.Greater(t, len(requests), 10, uid)
		for _, r := range requests {
			require.Empty(t, unknownNames(t, r.Query), "%s, %s: %s", uid, r.Panel.Title, r.Query)
		}
		for _, query := range Annotations(d, anyChoice, Range{historyStart(), historyStart().Add(time.Hour)}) {
			require.Empty(t, unknownNames(t, query), "annotation of %s: %s", uid, query)
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				require.Empty(t, unknownNames(t, Render(v.Query, d.Templating.List, anyChoice)), "variable %s of %s", v.Name, uid)
			}
		}
	}
}

func TestEveryNameInRulesStandsInTheTableOfMetrics(t *testing.T) {
	file, err := Rules(root)
	require.NoError(t, err)
	queries := 0
	for _, r := range allRules(file) {
		for _, q := range r.Data {
			if q.DataSourceUID != grafana.ExpressionUID {
				queries++
				require.Empty(t, unknownNames(t, Macros(q.Model.Query, Range{historyStart(), historyStart()}, time.Second)), r.UID)
			}
		}
	}
	require.GreaterOrEqual(t, queries, 12)
}

func TestNamesThatTheTableLacksAreFound(t *testing.T) {
	for query, missing := range map[string][]string{
		`SELECT last("up") FROM "rdma_port" GROUP BY "host", "device", "port"`:                        nil,
		`SELECT last("upp") FROM "rdma_port"`:                                                         {"upp"},
		`SELECT last("up") FROM "rdma_prot"`:                                                          {"rdma_prot", "up"},
		`SELECT last("up") FROM "rdma_port" WHERE "vector" = '0'`:                                     {"vector"},
		`SELECT last("up") FROM "rdma_port" GROUP BY "vector"`:                                        {"vector"},
		`SELECT sum("d") FROM (SELECT max("up") AS "d" FROM "rdma_port" GROUP BY "port")`:             nil,
		`SELECT sum("up") FROM (SELECT max("up") AS "d" FROM "rdma_port" GROUP BY "port")`:            {"up"},
		`SELECT max("d") FROM (SELECT max("up") AS "d" FROM "rdma_port") GROUP BY "port"`:             {"port"},
		`SHOW TAG VALUES ON "t" FROM "rdma_port" WITH KEY = "device" WHERE "host" =~ /^a$/`:           nil,
		`SHOW TAG VALUES ON "t" FROM "rdma_port" WITH KEY = "vector"`:                                 {"vector"},
		`SELECT top("d", "port", 10) FROM (SELECT max("up") AS "d" FROM "rdma_port" GROUP BY "port")`: nil,
	} {
		require.Equal(t, missing, unknownNames(t, query), query)
	}
}

func allRules(file *grafana.RuleFile) []grafana.Rule {
	var all []grafana.Rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var labelRef = regexp.MustCompile(`\{\{ \.Labels\.(\w+) \}\}`)

// labelsOf returns the labels that a rule's summary names. A rule about a whole
// device has no label port.
func labelsOf(r *grafana.Rule) []string {
	var names []string
	for _, m := range labelRef.FindAllStringSubmatch(r.Annotations["summary"], -1) {
		names = append(names, m[1])
	}
	return names
}

// spansHosts reports whether a rule is about a site, rack or group instead of a single host.
func spansHosts(r *grafana.Rule) bool {
	ofFabric := strings.HasPrefix(r.UID, "rdma-fabric-") && r.UID != "rdma-fabric-own-link"
	return r.UID == "rdma-ports-down-together" || r.UID == "rdma-sm-unstable" || ofFabric
}

func TestSummariesSpeakOfLabelsThatTheQueriesGroupBy(t *testing.T) {
	file, err := Rules(root)
	require.NoError(t, err)
	for _, r := range allRules(file) {
		names := labelsOf(&r)
		if spansHosts(&r) {
			require.Contains(t, r.Annotations["summary"], "{{ with .Labels.site }}")
			require.Contains(t, r.Data[0].Model.Query, `$timeFilter GROUP BY "site"`)
			for _, name := range names {
				require.Regexp(t, `GROUP BY "site", .*"`+name+`"`, r.Data[0].Model.Query, r.UID)
			}
			continue
		}
		require.Contains(t, names, "host", r.UID)
		for _, name := range names {
			_, by, _ := strings.Cut(r.Data[0].Model.Query[strings.LastIndex(r.Data[0].Model.Query, "GROUP BY"):], " BY ")
			require.Contains(t, by, `"`+name+`"`, r.UID)
		}
	}
}
