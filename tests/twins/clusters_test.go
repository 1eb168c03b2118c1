package twins

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/grafana"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
	"rdma_events/tests/scrapes"
)

// cluster is a fabric of hosts with one port each, and the link of one of them swallows everything. An operator wants one
// page that names that link: its host and its device. Of two hosts no third one says which end it is: the page is a warning and
// names both, once.
type cluster struct{ groups, size int }

// clusterSizes returns the sizes to test: with -short only up to eight hosts. make test-full PART=rules tests all.
func clusterSizes() []cluster {
	all := []cluster{{1, 2}, {1, 3}, {1, 4}, {1, 8}, {2, 2}, {2, 4}}
	if !testing.Short() {
		all = append(all, cluster{1, 32}, cluster{4, 8}, cluster{8, 4})
	}
	return all
}

func (c cluster) site() string { return fmt.Sprintf("%dx%d", c.groups, c.size) }

func (c cluster) hosts() int { return c.groups * c.size }

// bad returns the host with the bad link.
func (c cluster) bad() int { return c.hosts() / 2 }

// pages returns the pages that an operator wants: severities and the interfaces that are named.
func (c cluster) pages() []string {
	if c.hosts() == 2 {
		return []string{"warning node0001/sim0 node0002/sim0"}
	}
	return []string{fmt.Sprintf("critical node%04d/sim0", c.bad()+1)}
}

const (
	clustersLast  = 20 * time.Minute
	clustersBreak = 5 * time.Minute
)

// fabric returns what the hosts report. Whom they probe and whether they blame their own link is decided by packages pinglist and verdict.
func (c cluster) fabric(t *testing.T) *history.Fabric {
	t.Helper()
	f := &history.Fabric{
		Groups: c.groups, Size: c.size, Start: hourStart(), End: hourStart().Add(clustersLast), Interval: every,
		Tags: map[string]string{"site": c.site(), "rack": "1"},
	}
	between := func(from, to int) verdict.Verdict {
		if from == c.bad() || to == c.bad() {
			return verdict.VerdictPath
		}
		return verdict.VerdictOK
	}
	var text strings.Builder
	numbers := map[string]int{}
	for i := range c.hosts() {
		name := fmt.Sprintf("node%04d", i+1)
		fmt.Fprintln(&text, name, history.FabricGroup(i/c.size))
		numbers[name] = i
	}
	list, err := pinglist.ParseList(strings.NewReader(text.String()))
	require.NoError(t, err)
	blames := map[int]bool{}
	for name, i := range numbers {
		said := map[pinglist.Scope][]verdict.PeerVerdict{}
		for _, p := range list.Pings(name, 8) {
			said[p.Scope] = append(said[p.Scope], verdict.PeerVerdict{Host: p.Name, Verdict: between(i, numbers[p.Name])})
		}
		blames[i] = verdict.JudgePort(true, said[pinglist.ScopeGroup], said[pinglist.ScopeAcross]...) == verdict.VerdictOwnLink
	}
	f.Pair = func(since time.Duration, from, to history.FabricHost) history.FabricPair {
		if v := between(from.Number, to.Number); since >= clustersBreak && v != verdict.VerdictOK {
			return history.FabricPair{Verdict: v}
		}
		return history.FabricPair{}
	}
	f.Port = func(since time.Duration, h history.FabricHost) history.FabricPort {
		return history.FabricPort{OwnLink: since >= clustersBreak && blames[h.Number]}
	}
	return f
}

func TestOneBadLinkIsOnePageThatNamesIt(t *testing.T) {
	src := grafana.Source{Server: influx.Start(t), Database: "rdma"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	scraped := scrapes.NewSeries(firstScrape(), interval)
	w := &twins{influx: src, series: scraped}
	text, err := os.ReadFile(filepath.Join(root, "assets/prometheus/telegraf.conf"))
	require.NoError(t, err)
	output, err := scrapes.ReadOutput(string(text))
	require.NoError(t, err)
	telegraf, err := scrapes.Start(rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large"), string(text), t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Close()) }()
	for _, c := range clusterSizes() {
		var out strings.Builder
		require.NoError(t, c.fabric(t).Write(&out))
		lines, err := (&member{}).edited(out.String())
		require.NoError(t, err)
		w.write(t, c.site(), lines)
		metrics, err := telegraf.Shape(lines)
		require.NoError(t, err)
		require.NoError(t, output.Each(metrics, firstScrape(), hourStart().Add(clustersLast), interval, func(at time.Time, found []*dto.MetricFamily) error {
			scrapes.Label(found, "rdma", c.site()+":9273")
			scraped.Add(at, found)
			return nil
		}))
	}
	t.Run("InfluxDB", func(t *testing.T) { requirePages(t, src) })
	t.Run("Prometheus", func(t *testing.T) { requireAlerts(t, scraped) })
}

// requirePages evaluates all rules in InfluxDB until the end.
func requirePages(t *testing.T, src grafana.Source) {
	file, err := grafana.Rules(root)
	require.NoError(t, err)
	alerts, err := grafana.Alerts(t.Context(), src, file, grafana.Range{From: hourStart().Add(time.Minute + askew), To: hourStart().Add(clustersLast)})
	require.NoError(t, err)
	found := map[string][]string{}
	for _, a := range alerts {
		site := a.Labels["site"]
		if a.State != grafana.Firing || site == "" {
			continue // of no cluster: that no plugin reports
		}
		page := cmp.Or(a.Labels["severity"], a.Rule.Labels["severity"]) // the first is there where it depends on the role
		for _, end := range [][2]string{{"host", "device"}, {"peer_host", "peer_device"}} {
			if a.Labels[end[0]] != "" {
				page += " " + a.Labels[end[0]] + "/" + a.Labels[end[1]]
			}
		}
		t.Logf("%s: %s %v", site, a.Rule.UID, a.Labels)
		found[site] = append(found[site], page)
	}
	for _, c := range clusterSizes() {
		slices.Sort(found[c.site()])
		require.Equal(t, c.pages(), found[c.site()], "%d groups of %d", c.groups, c.size)
	}
}

// requireAlerts has promtool require the same of Prometheus.
func requireAlerts(t *testing.T, scraped *scrapes.Series) {
	test := prom.UnitTest{Interval: interval.String(), Series: scraped.Notation()}
	for _, c := range clusterSizes() {
		e := prom.UnitExpr{At: (clustersLast - time.Minute - early - offset).String()}
		// A suspect and the host that blames itself are named by different labels. Two alerts about one link are 2.
		e.Expr = fmt.Sprintf(`sum by (severity, link) (label_join(label_join(label_join(ALERTS{alertstate="firing", site=%q},
			"a", "/", "host", "device"), "b", "/", "peer_host", "peer_device"), "link", " ", "a", "b"))`, c.site())
		for _, page := range c.pages() {
			severity, link, _ := strings.Cut(page, " ")
			e.Samples = append(e.Samples, prom.UnitSample{Labels: fmt.Sprintf("{severity=%q, link=%q}", severity, link), Value: 1})
		}
		// What an alert does not name is "/".
		e.Expr = `sum by (severity, link) (label_replace(` + e.Expr + `, "link", "$1", "link", "(?:/ )?(.*?)(?: /)?"))`
		test.Exprs = append(test.Exprs, e)
	}
	requireUnits(t, test)
}
