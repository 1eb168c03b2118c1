package model

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	board "rdma_events/assets/grafana"
	"rdma_events/tests/grafana"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

var (
	minutes    = flag.Int("model.minutes", 0, "minutes of the fabric that the InfluxDB gets; 0: no database is asked")
	prometheus = flag.Bool("model.prometheus", false, "ask a Prometheus too, of the last two minutes")
)

const (
	root      = "../../.."
	reporting = 10 * time.Second // Telegraf's
	scrape    = 15 * time.Second // of the shipped prometheus.yml
	// bar is how long a question to the database is to take at most, and tenfold is what a slow machine may take.
	bar     = 2 * time.Second
	tenfold = 10 * bar
)

// queryTime returns the time at which the databases are queried. The first half of their data is without a fault.
func queryTime() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// played is a run of the model whose faults are all found, of several kinds.
type played struct {
	seed     uint64
	plan     Plan
	outcome  *Outcome
	suspects []string // by suspects.go, which are the planted ones
}

// alertNames are the names in the alerts of a database.
type alertNames struct {
	suspects []string // interfaces and groups, of fabric-suspect and fabric-group
	ownLinks []string // hosts that blame their own links, of fabric-own-link
}

// expected returns the names that a database must have. fabric-own-link names the hosts that blame their own links if named says so,
// and fabric-suspect names none of them.
func (p *played) expected(named func(p *played, host int) bool) alertNames {
	var a alertNames
	for host, blames := range p.outcome.OwnLink {
		if blames && named(p, host) {
			a.ownLinks = append(a.ownLinks, HostName(host))
		}
	}
	for _, name := range p.suspects {
		if !slices.Contains(a.ownLinks, name) {
			a.suspects = append(a.suspects, name)
		}
	}
	return a
}

// inAnyGroup is for InfluxDB, whose fabric-own-link names all hosts that blame their own links.
func inAnyGroup(*played, int) bool { return true }

// outsideCutGroups is for Prometheus, whose fabric-own-link leaves hosts to fabric-group if two or more of a suspected group blame their
// own links.
func outsideCutGroups(p *played, host int) bool {
	group, blaming := host/Size, 0
	for _, blames := range p.outcome.OwnLink[group*Size : (group+1)*Size] {
		if blames {
			blaming++
		}
	}
	return blaming < 2 || !slices.Contains(p.suspects, GroupName(group))
}

// playedRuns returns two runs: one with a dead leaf, where all hosts of the leaf blame their own links, and one with three faulty
// interfaces.
func playedRuns(t *testing.T) []played {
	t.Helper()
	f, err := New()
	require.NoError(t, err)
	var all []played
	for _, seed := range []uint64{25, 28} {
		one := played{seed: seed, plan: Planned(seed)}
		one.outcome = f.Run(seed, &one.plan)
		for _, s := range one.outcome.Suspects() {
			one.suspects = append(one.suspects, s.Name)
		}
		var planted []string
		for _, fault := range one.plan.Faults {
			planted = append(planted, fault.Suspect())
		}
		slices.Sort(planted)
		slices.Sort(one.suspects)
		require.Equal(t, planted, one.suspects, "run %d", seed)
		all = append(all, one)
	}
	return all
}

// reports returns what the hosts report from a time on, at Telegraf's interval.
func (p *played) reports(from time.Time, span time.Duration) *history.Fabric {
	f := p.outcome.Reports(&p.plan, span/2)
	f.Start, f.End, f.Interval = from, from.Add(span), reporting
	f.Tags = map[string]string{"site": "s"}
	return f
}

func TestTheDatabasesSuspectWhatIsPlanted(t *testing.T) {
	if *minutes == 0 {
		t.Skip("needs -model.minutes")
	}
	all := playedRuns(t)
	db := influx.Start(t)
	for i := range all {
		src := grafana.Source{Server: db, Database: fmt.Sprint("run", all[i].seed)}
		w := fillInfluxDB(t, src, &all[i])
		askInfluxDB(t, src, &all[i], w)
	}
	if *prometheus {
		askPrometheus(t, &all[0])
	}
}

// size is what was written.
type size struct {
	hosts, points, bytes int
	span                 time.Duration
}

// fillInfluxDB writes the lines of all hosts.
func fillInfluxDB(t *testing.T, src grafana.Source, p *played) size {
	t.Helper()
	began := time.Now()
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	w := src.Server.NewWriter(t.Context(), src.Database)
	s := size{span: time.Duration(*minutes) * time.Minute}
	require.NoError(t, p.reports(queryTime().Add(-s.span), s.span).Each(func(_ history.FabricHost, lines []byte) error {
		s.hosts++
		s.bytes += len(lines)
		s.points += strings.Count(string(lines), "\n")
		for line := range strings.Lines(string(lines)) {
			if _, err := w.Write([]byte(line)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, w.Flush())
	t.Logf("run %d: %d hosts, %d points of %v in %v", p.seed, s.hosts, s.points, s.span, time.Since(began).Round(time.Second))
	return s
}

// askInfluxDB runs the rules and the dashboard, and the price of a large fleet by what the database has.
func askInfluxDB(t *testing.T, src grafana.Source, p *played, written size) {
	t.Helper()
	file, err := grafana.Rules(root)
	require.NoError(t, err)
	var found alertNames
	var times timings
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.HasPrefix(r.UID, "rdma-fabric-") {
				continue
			}
			for _, q := range grafana.RuleRequests(&r, queryTime()) {
				times.query(t, src, r.UID+" "+q.RefID, q.Query)
			}
			numbers, err := grafana.Evaluate(t.Context(), src, &r, queryTime())
			require.NoError(t, err)
			for _, n := range numbers {
				if n.Value == 1 {
					found.addName(t, r.UID, n.Labels)
				}
			}
		}
	}
	found.sortNames()
	require.Equal(t, p.expected(inAnyGroup), found, "what is planted, and nothing else")
	times.query(t, src, "the question of the design", strings.ReplaceAll(`SELECT sum(bad) FROM (SELECT last(bad) AS bad FROM rdma_fabric_peer
		WHERE time > NOW - 2m AND scope = 'group' GROUP BY host, device, peer_host, peer_device) WHERE time > NOW - 2m GROUP BY peer_host, peer_device`,
		"NOW", fmt.Sprintf("%dms", queryTime().UnixMilli())))
	times.query(t, src, "fabric-slow, ten minutes of six hours ago", latencyQuery(t, file, queryTime().Add(6*time.Hour)))
	boards, err := grafana.Dashboards(root)
	require.NoError(t, err)
	hour := grafana.Range{From: queryTime().Add(-time.Hour), To: queryTime()}
	requests, err := grafana.Requests(boards["rdma-events-fabric"], grafana.Choice{"policy": {"autogen"}}, hour)
	require.NoError(t, err)
	for _, q := range requests {
		times.query(t, src, "panel "+q.Title+" "+q.RefID, q.Query)
	}
	t.Logf("run %d, InfluxDB, %v of %d hosts:\n%s", p.seed, written.span, written.hosts, times.table())
	ports, groups := seriesCount(t, src, "rdma_fabric_port"), seriesCount(t, src, "rdma_fabric")
	require.Equal(t, written.hosts, ports, "each host has a port")
	logStorageCost(t, groups, ports, written)
}

// latencyQuery returns the query of the rule rdma-fabric-slow about the latency six hours ago.
func latencyQuery(t *testing.T, file *board.RuleFile, at time.Time) string {
	t.Helper()
	for _, g := range file.Groups {
		for i := range g.Rules {
			if g.Rules[i].UID == "rdma-fabric-slow" {
				return grafana.RuleRequests(&g.Rules[i], at)[1].Query
			}
		}
	}
	require.FailNow(t, "no rule rdma-fabric-slow")
	return ""
}

// addName adds the name in the labels of an alert. It ignores alerts that name neither a suspect nor a host that blames its own link.
func (a *alertNames) addName(t *testing.T, alert string, labels map[string]string) {
	t.Helper()
	to, label := &a.suspects, ""
	switch alert {
	case "rdma-fabric-suspect", "RDMAFabricSuspect":
		label = "peer_host"
	case "rdma-fabric-group", "RDMAFabricGroup":
		label = "own_group"
	case "rdma-fabric-own-link", "RDMAFabricOwnLink":
		to, label = &a.ownLinks, "host"
	default:
		return
	}
	require.NotEmpty(t, labels[label], "%s: %v", alert, labels)
	*to = append(*to, labels[label])
}

func (a *alertNames) sortNames() {
	slices.Sort(a.suspects)
	slices.Sort(a.ownLinks)
}

// seriesCount returns the number of series of a measurement.
func seriesCount(t *testing.T, src grafana.Source, measurement string) int {
	t.Helper()
	found, err := src.Query(t.Context(), "SHOW SERIES EXACT CARDINALITY FROM "+influx.Quote(measurement))
	require.NoError(t, err)
	all := 0
	for _, s := range found {
		for _, v := range s.Column("count") {
			n, err := v.(json.Number).Int64()
			require.NoError(t, err)
			all += int(n)
		}
	}
	return all
}

// logStorageCost logs the series, points and bytes that 10,000 healthy hosts with 8 ports each cost in InfluxDB. The series about
// groups are counted once a host, however many ports it has.
func logStorageCost(t *testing.T, groups, ports int, written size) {
	t.Helper()
	const hosts, each = 10_000, 8
	series := hosts*groups/written.hosts + hosts*each*ports/written.hosts
	perPoint := float64(written.bytes) / float64(written.points)
	perMinute := series * int(time.Minute/reporting)
	t.Logf("%d hosts of %d ports: %d series, %d points a minute, %.0f MB of lines a minute (%.0f bytes a point)",
		hosts, each, series, perMinute, float64(perMinute)*perPoint/1e6, perPoint)
	require.Equal(t, 130_000, series, "what the design says")
}

// timings are the times of questions.
type timings []timing

type timing struct {
	what   string
	took   time.Duration
	series int
}

func (all *timings) query(t *testing.T, src grafana.Source, what, query string) {
	t.Helper()
	began := time.Now()
	found, err := src.Query(t.Context(), query)
	require.NoError(t, err, what)
	all.add(t, timing{what, time.Since(began), len(found)})
}

func (all *timings) add(t *testing.T, one timing) {
	t.Helper()
	require.Less(t, one.took, tenfold, one.what)
	*all = append(*all, one)
}

// table has the slowest first, and says which miss the bar.
func (all *timings) table() string {
	slices.SortStableFunc(*all, func(a, b timing) int { return int(b.took - a.took) })
	var b strings.Builder
	b.WriteString("| question | series | ms | within 2 s |\n|---|---|---|---|\n")
	for _, one := range *all {
		within := "yes"
		if one.took > bar {
			within = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", one.what, one.series, one.took.Milliseconds(), within)
	}
	return b.String()
}
