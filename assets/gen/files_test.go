package gen

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
)

// committed are the directories of this repository that have the files of the defaults.
var committed = map[Engine]string{InfluxDB: "..", Prometheus: "../prometheus"}

func TestCommittedFilesAreWhatTheDefaultsGive(t *testing.T) {
	for engine, dir := range committed {
		files, err := Files(engine, Defaults(), measure.All())
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			have, err := os.ReadFile(filepath.Join(dir, f.Path))
			require.NoError(t, err)
			require.Equal(t, string(f.Text), string(have), "%s is old; run: go generate ./assets/gen", f.Path)
		}
	}
	for copied, of := range map[string]string{"output.conf": "telegraf.conf", "prometheusrule.yaml": "prometheusrule.yaml"} {
		have, err := os.ReadFile(filepath.Join("../../packaging/kubernetes/components/prometheus", copied))
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join("../prometheus", of))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s is old; run: go generate ./assets/gen", copied)
	}
	have, err := os.ReadFile("../../docs/reference/alerts.md")
	require.NoError(t, err)
	require.Equal(t, string(AlertsDocument()), string(have), "run: go generate ./assets/gen")
}

// filesText returns the concatenated text of all files for an engine.
func filesText(t *testing.T, e Engine, change func(*Options)) string {
	t.Helper()
	o := Defaults()
	change(&o)
	files, err := Files(e, o, measure.All())
	require.NoError(t, err)
	var b strings.Builder
	for _, f := range files {
		b.Write(f.Text)
	}
	return b.String()
}

func TestEachOptionChangesTheFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		engine   Engine
		change   func(*Options)
		has, not []string
	}{
		"docs in Grafana's rules": {
			InfluxDB, func(o *Options) { o.Docs = "https://git.example.com/docs/" },
			[]string{"runbook_url: https://git.example.com/docs/reference/alerts.md#port-down"}, nil,
		},
		"docs in Prometheus' rules": {
			Prometheus, func(o *Options) { o.Docs = "https://git.example.com/docs" },
			[]string{"runbook_url: https://git.example.com/docs/reference/alerts.md#wake-slow"}, nil,
		},
		"no docs": {InfluxDB, func(*Options) {}, nil, []string{"runbook_url", "$RDMA", "${RDMA"}},
		"labels in InfluxQL": {
			InfluxDB, func(o *Options) { o.Labels = []string{"room"} },
			[]string{`GROUP BY "room", "host", "instance", "device", "port"`, `GROUP BY "room"`}, []string{"rack"},
		},
		"labels in PromQL and Alertmanager": {
			Prometheus, func(o *Options) { o.Labels = []string{"room", "row", "rail"} },
			[]string{"count by (room, row, rail)", "group_by: [alertname, room, row]", "equal: [room, row, rail]"}, []string{"rack,"},
		},
		"no labels": {Prometheus, func(o *Options) { o.Labels = nil }, []string{"count (rdma_port_up", "group_by: [alertname]", "equal: []"}, nil},
		"no labels in InfluxQL": {
			InfluxDB, func(o *Options) { o.Labels = nil }, []string{`GROUP BY "host", "instance", "device", "port") WHERE $timeFilter`}, []string{"rack"},
		},
		"a long interval in InfluxQL": {
			InfluxDB, func(o *Options) { o.Interval = 5 * time.Minute },
			[]string{"from: 900\n", `"timeFrom": "15m"`, "GROUP BY time(15m)"}, []string{"from: 180\n", `"timeFrom": "5m"`},
		},
		"a long interval in Prometheus": {
			Prometheus, func(o *Options) { o.Interval = 5 * time.Minute },
			[]string{`expiration_interval = "15m0s"`, "for: 15m"}, []string{`expiration_interval = "30s"`},
		},
		"a data source": {
			InfluxDB, func(o *Options) { o.DataSource = "mine" },
			[]string{"datasourceUid: mine", "uid: mine", `"value": "mine"`}, []string{"rdma-influxdb"},
		},
		"a Loki": {
			Prometheus, func(o *Options) { o.Loki = "my-loki" },
			[]string{`"uid": "my-loki"`, `| logfmt | device=~\"$device\" | port=~\"$port\"`, `"title": "Port changes"`}, nil,
		},
		"no Loki": {Prometheus, func(*Options) {}, nil, []string{`"type": "loki"`, `"title": "Causes"`}},
		"labels of Loki's streams": {
			Prometheus, func(o *Options) { o.Labels = []string{"room"}; o.Loki = "my-loki" },
			[]string{`"host", "instance", "room"`, `room=~\"$room\",host=~\"$host\"} | logfmt`}, []string{`rack`},
		},
		"a shared database": {
			InfluxDB, func(o *Options) { o.Place, _ = influxdb.In("telegraf") },
			[]string{`"rdma_raw"."rdma_port"`, "dbName: telegraf", `ON "telegraf"`, "database = \"telegraf\"\n  retention_policy = \"rdma_raw\"\n"},
			[]string{"ALTER"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := filesText(t, tt.engine, tt.change)
			for _, want := range tt.has {
				require.True(t, strings.Contains(all, want), "%q is missing", want)
			}
			for _, not := range tt.not {
				require.False(t, strings.Contains(all, not), "%q is there", not)
			}
		})
	}
}

func TestAnOptionThatIsNotAllowedIsNamed(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`-docs "docs" is not allowed: want an absolute address, as in https://git.example.com/rdma_events/docs`: func(o *Options) { o.Docs = "docs" },
		`-labels: "a b" is not allowed: want names of letters, digits and _, separated by commas`:               func(o *Options) { o.Labels = []string{"a b"} },
		`-labels: "port" is not allowed: the plugin has a tag of that name`:                                     func(o *Options) { o.Labels = []string{"port"} },
		`-labels: "host" is not allowed: the plugin has a tag of that name`:                                     func(o *Options) { o.Labels = []string{"host"} },
		`-labels: "a" twice is not allowed`:                                                                     func(o *Options) { o.Labels = []string{"a", "a"} },
		`-interval 100ms is not allowed: want whole seconds, 1s or more`:                                        func(o *Options) { o.Interval = 1e8 },
		`-datasource "a b" is not allowed: want the UID of a data source in Grafana`:                            func(o *Options) { o.DataSource = "a b" },
	} {
		o := Defaults()
		change(&o)
		_, err := Files(InfluxDB, o, measure.All())
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, ErrOption)
	}
	_, err := Files("graphite", Defaults(), measure.All())
	require.EqualError(t, err, `-engine "graphite" is not allowed: want influxdb or prometheus`)
}

func TestANameThatTheTableLacksIsAnError(t *testing.T) {
	var fewer []measure.Metric
	for _, m := range measure.All() {
		if m.Name != "rdma_port" {
			fewer = append(fewer, m)
		}
	}
	_, err := Files(InfluxDB, Defaults(), fewer)
	require.ErrorContains(t, err, "the table of metrics has no rdma_port")
	require.ErrorContains(t, err, "rdma_port.rate_gbps")
}

func TestAUnitThatGrafanaLacksIsAnError(t *testing.T) {
	n := newNames([]measure.Metric{{Name: "m", Fields: []measure.Field{{Name: "f", Unit: "furlong"}}}})
	n.unit("m.f")
	require.ErrorContains(t, n.err(), `"furlong"`)
}

func TestEveryRuleHasAChapterThatSaysWhatToDo(t *testing.T) {
	document := string(AlertsDocument())
	o := Defaults()
	ids := map[string]bool{}
	for _, r := range o.rules() {
		require.False(t, ids[r.ID], r.ID)
		ids[r.ID] = true
		require.Contains(t, document, "\n## "+r.ID+"\n")
		require.NotEmpty(t, r.FirstSteps, r.ID)
		for _, part := range []string{r.Title, r.Summary, r.Fires, r.Quiet, r.Clears, r.Blind, r.promql} {
			require.NotEmpty(t, strings.TrimSpace(part), r.ID)
		}
		chapter, ok := Explain(r.ID)
		require.True(t, ok)
		require.Contains(t, chapter, r.Title)
		same, _ := Explain(AlertName(r.ID))
		require.Equal(t, chapter, same)
	}
	require.Len(t, RuleIDs(), len(ids))
	_, ok := Explain("nonsense")
	require.False(t, ok)
}

func TestDurationsAreWrittenAsPrometheusDoes(t *testing.T) {
	require.Equal(t, "0s", formatDuration(0))
	require.Equal(t, "90s", formatDuration(90e9))
	require.Equal(t, "10m", formatDuration(600e9))
	require.Equal(t, "2h", formatDuration(7200e9))
}

func TestTheFirstScreenSaysWhatIsWrongAndWhere(t *testing.T) {
	o := Defaults()
	for _, e := range []Engine{InfluxDB, Prometheus} {
		d := overviewDashboard(newNames(measure.All()), e, &o)
		requireAges(t, d)
		require.Equal(t, []string{
			"Problems now", "Hosts silent", "Ports down", "Devices missing", "Not watched", "Commands stuck", "Links slow", "Probes failing", "Firing",
			"Hosts by last report",
		}, firstScreen(t, d), string(e))
		for _, p := range d.Panels {
			if p.Title == "Problems now" {
				require.Subset(t, shownColumns(&p), []string{"host", "severity", "problem", "device", "port", "since", "what to do"})
			}
		}
	}
}

func TestTheFirstScreenSaysWhichApplicationHasTrouble(t *testing.T) {
	o := Defaults()
	for e, events := range map[Engine][]string{InfluxDB: {"Error events"}, Prometheus: nil} {
		d := appsDashboard(newNames(measure.All()), e, &o)
		require.Equal(t, append([]string{
			"Unread errors", "Threads that hang", "Errors in 30 minutes", "Queue pairs in error", "Tracers not attached",
			"Applications in trouble", "Hangs",
		}, events...), firstScreen(t, d), string(e))
		for _, p := range d.Panels {
			if p.Type == "table" && p.Title == "Applications in trouble" {
				require.Subset(t, shownColumns(&p), []string{"host", "device", "app", "unread errors", "threads hang", "QPs in error", "errors in 30 min"})
			}
		}
	}
}

func TestTheFirstScreenSaysWhichInterfaceOrGroupItIs(t *testing.T) {
	o := Defaults()
	for _, e := range []Engine{InfluxDB, Prometheus} {
		d := fabricDashboard(newNames(measure.All()), e, &o)
		require.Equal(t, []string{
			"Suspects", "Own links", "Pairs bad", "Peers down", "Peers busy", "Not met", "Suspects by observers", "Own link", "Groups by bad pairs",
		}, firstScreen(t, d), string(e))
		for _, p := range d.Panels {
			switch p.Title {
			case "Suspects by observers":
				require.Subset(t, shownColumns(&p), []string{"peer_host", "peer_device", "peer_group", "own group", "anywhere", "there", "back"})
			case "Own link":
				require.Subset(t, shownColumns(&p), []string{"host", "device", "port", "own_group", "age"})
			}
			if p.Type != "row" {
				require.Contains(t, p.Description, "**Needs** `fabric.peers_file`", p.Title)
			}
		}
	}
}

// Who has an option off reads which one it is, and no error.
func TestEachPanelOfApplicationsSaysWhatToEnable(t *testing.T) {
	o := Defaults()
	for _, e := range []Engine{InfluxDB, Prometheus} {
		for _, p := range appsDashboard(newNames(measure.All()), e, &o).All() {
			if p.Type == "row" {
				continue
			}
			require.Regexp(t, `\*\*Needs\*\* `+"`applications\\.(events|objects) = true`", p.Description, p.Title)
			if p.Type != "table" { // there it would be in each empty cell
				require.Regexp(t, `\b(events|objects) is off$`, p.FieldConfig.Defaults.NoValue, p.Title)
			}
		}
	}
}

// firstScreen returns the titles of the panels that a screen of 900 pixels shows, which are 23 lines of Grafana's grid, each 38
// pixels high. It requires that no panel covers another.
func firstScreen(t *testing.T, d *grafana.Dashboard) []string {
	t.Helper()
	const lines = 23
	var first []string
	for _, p := range d.Panels {
		if p.Type != "row" && p.GridPos.Y+p.GridPos.H <= lines {
			first = append(first, p.Title)
		}
		for _, q := range d.Panels {
			apart := p.GridPos.X+p.GridPos.W <= q.GridPos.X || q.GridPos.X+q.GridPos.W <= p.GridPos.X ||
				p.GridPos.Y+p.GridPos.H <= q.GridPos.Y || q.GridPos.Y+q.GridPos.H <= p.GridPos.Y
			require.True(t, p.ID == q.ID || apart, "%s covers %s", p.Title, q.Title)
		}
	}
	return first
}

// requireAges requires that the tables of faults show host, device and age without scrolling, on a screen of 1400 pixels.
func requireAges(t *testing.T, d *grafana.Dashboard) {
	t.Helper()
	found := 0
	for _, p := range d.All() {
		if p.Type != "table" || !slices.Contains([]int{10, 11, 33, 34}, p.ID) {
			continue
		}
		require.Subset(t, shownColumns(&p), []string{"host", "device", "age"}, p.Title)
		found++
	}
	require.Equal(t, 4, found)
}

// shownColumns returns the titles of a table's columns that are seen without scrolling.
func shownColumns(p *grafana.Panel) []string {
	i := slices.IndexFunc(p.Transformations, func(t grafana.Transform) bool { return t.ID == "organize" })
	o := p.Transformations[i].Options
	exclude, rename := o["excludeByName"].(map[string]any), o["renameByName"].(map[string]any)
	index := o["indexByName"].(map[string]any)
	names := slices.SortedFunc(maps.Keys(index), func(a, b string) int { return index[a].(int) - index[b].(int) })
	right, seen := 0, []string{}
	for _, name := range names {
		if exclude[name] == true {
			continue
		}
		if title, ok := rename[name]; ok {
			name = title.(string)
		}
		if right += max(widths[name], 50); right <= p.GridPos.W*1408/24-10 {
			seen = append(seen, name)
		}
	}
	return seen
}

// Grafana ignores a panel's own time while the dashboard's range is absolute, so the queries have to limit themselves.
func TestPanelsWithATimeOfTheirOwnAskForItInAnyRange(t *testing.T) {
	o, n := Defaults(), newNames(measure.All())
	own := 0
	for _, board := range []func(*names, Engine, *Options) *grafana.Dashboard{
		overviewDashboard, hostDashboard, deviceDashboard, appsDashboard, fabricDashboard,
	} {
		for _, p := range board(n, InfluxDB, &o).All() {
			for _, target := range p.Targets {
				if p.TimeFrom == "" {
					continue
				}
				own++
				require.NotContains(t, target.Query, "$timeFilter", p.Title)
				require.Contains(t, target.Query, "time > ${__to}ms - "+p.TimeFrom+" AND time <= ${__to}ms", p.Title)
			}
		}
	}
	require.Greater(t, own, 50)
}
