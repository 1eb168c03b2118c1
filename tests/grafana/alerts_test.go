package grafana

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

const root = "../.."

func historyStart() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// spans are the times of the evaluations at which a rule fired on a host.
type spans map[string]map[string][]time.Duration // rule, host

func TestEveryRuleFiresOnItsFaultsAndOnNothingElse(t *testing.T) {
	if testing.Short() {
		t.Skip("it is among the long forms: make test-full PART=rules. tests/alerts has each alert fire and clear")
	}
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	for _, f := range allFaults() {
		for _, c := range f.histories(historyStart()) {
			w := src.Server.NewWriter(t.Context(), src.Database)
			require.NoError(t, c.Write(t.Context(), w), f.name)
			require.NoError(t, w.Flush(), f.name)
		}
		if f.fabric != nil {
			f.writeFabric(t, src)
		}
	}
	requireHealthyHour(t, src)
	file, err := Rules(root)
	require.NoError(t, err)
	fired := spans{}
	intervals := map[string]time.Duration{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			fired[r.UID], intervals[r.UID] = watchRule(t, src, &r, &g, end)
		}
	}
	for _, f := range allFaults() {
		t.Run(f.name, func(t *testing.T) { f.check(t, fired, intervals) })
	}
	t.Run("silence at any moment", func(t *testing.T) { requireSilence(t, src) })
}

// ruleNamed returns a rule with its group.
func ruleNamed(t *testing.T, uid string) (*grafana.Rule, *grafana.Group) {
	t.Helper()
	file, err := Rules(root)
	require.NoError(t, err)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.UID == uid {
				return &r, &g
			}
		}
	}
	require.FailNow(t, "no rule "+uid)
	return nil, nil
}

// requireSilence evaluates the rule of silent plugins far more often than its
// group does: the rule counts in buckets, and its result must not depend on the
// start of the buckets.
func requireSilence(t *testing.T, src Source) {
	rule, _ := ruleNamed(t, "rdma-plugin-silent")
	for at := 5 * time.Minute; at < end; at += 41*time.Second + 3*time.Millisecond {
		numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(at))
		require.NoError(t, err)
		silent := map[string]bool{}
		for _, n := range numbers {
			if n.Value == 1 {
				silent[n.Labels["host"]] = true
			}
		}
		require.False(t, silent["healthy"], "%v", at)
		require.False(t, silent["plugin-silent"] && at < afterHealthy(2)+5*time.Minute, "%v: too early", at)
		require.True(t, silent["plugin-silent"] || at < afterHealthy(2)+10*time.Minute, "%v: too late", at)
	}
}

// requireHealthyHour requires that a rule that stays quiet has real data.
func requireHealthyHour(t *testing.T, src Source) {
	t.Helper()
	for measurement, field := range map[string]string{
		"rdma_port": "up", "rdma_async": "read", "rdma_cq_probe": "wake_ns_p99", "rdma_device": "open", "rdma_collector": "uptime_ns",
	} {
		got, err := src.Query(t.Context(), fmt.Sprintf(`SELECT count(%q) AS "n" FROM %q WHERE "host" = 'healthy' AND time < '%s'`,
			field, measurement, historyStart().Add(healthy).Format(time.RFC3339)))
		require.NoError(t, err)
		require.Len(t, got, 1, measurement)
		n, _ := got[0].Numbers("n")
		require.GreaterOrEqual(t, n[0], 358.0, "%s: an hour at ten seconds", measurement)
	}
}

// askew moves evaluations away from the multiples of intervals, because Grafana
// does not evaluate at these either: some queries of InfluxDB work only there.
const askew = 17*time.Second + 23*time.Millisecond

// watchRule evaluates a rule from the fifth minute to the last. It returns the times at which the rule fired, by host, and the
// interval between two evaluations.
func watchRule(t *testing.T, src Source, r *grafana.Rule, g *grafana.Group, last time.Duration) (map[string][]time.Duration, time.Duration) {
	t.Helper()
	w, err := NewWatcher(r, g)
	require.NoError(t, err)
	fired := map[string][]time.Duration{}
	for at := 5 * time.Minute; at < last; at += w.Interval() {
		require.NoError(t, w.Evaluate(t.Context(), src, historyStart().Add(at+askew)))
		for _, labels := range w.In(Firing) {
			requireLabels(t, r, labels)
			host := cmp.Or(labels["host"], labels["site"]) // a rule that counts has no host; each host is a site of its own
			if strings.HasPrefix(r.UID, "rdma-fabric-") {
				host = labels["site"] // all hosts of a fabric are of the site that has the fault's name
			}
			if !slices.Contains(fired[host], at) {
				fired[host] = append(fired[host], at)
			}
		}
	}
	return fired, w.Interval()
}

// requireLabels requires every label that a rule's summary names.
func requireLabels(t *testing.T, r *grafana.Rule, labels map[string]string) {
	t.Helper()
	for _, name := range labelsOf(r) {
		require.NotEmpty(t, labels[name], "%s: label %s", r.UID, name)
	}
}

func (f *fault) check(t *testing.T, fired spans, intervals map[string]time.Duration) {
	expected := map[string]firing{}
	for _, want := range f.fires {
		expected["rdma-"+want.rule] = want
	}
	for _, uid := range slices.Sorted(maps.Keys(fired)) {
		got := fired[uid][f.name]
		want, ok := expected[uid]
		if !ok {
			require.Empty(t, got, "%s is to stay quiet", uid)
			continue
		}
		require.NotEmpty(t, got, "%s is to fire", uid)
		slack, interval := 2*intervals[uid]+time.Minute, intervals[uid]
		first, last := got[0], got[len(got)-1]
		t.Logf("%s fires from %v to %v", uid, first, last)
		require.GreaterOrEqual(t, first, max(want.from, 5*time.Minute), "%s: too early", uid)
		require.LessOrEqual(t, first, max(want.from, 5*time.Minute)+slack, "%s: too late", uid)
		till := want.till
		if till == 0 {
			till = end
		}
		require.InDelta(t, till.Minutes(), last.Minutes(), slack.Minutes(), "%s: end", uid)
		require.Len(t, got, int((last-first)/interval)+1, "%s: without a gap", uid)
	}
}

func TestOnlySilenceRuleFiresWithoutData(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	file, err := Rules(root)
	require.NoError(t, err)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			w, err := NewWatcher(&r, &g)
			require.NoError(t, err)
			for i := range 4 {
				require.NoError(t, w.Evaluate(t.Context(), src, historyStart().Add(time.Duration(i)*w.Interval())))
			}
			require.Equal(t, r.UID == "rdma-plugin-silent", len(w.In(Firing)) > 0, r.UID)
		}
	}
}

// Eight ports of a large place are an ordinary day: a host that is repaired, or two.
func TestPortsOfALargePlaceAreDownTogetherOnlyAboveATenth(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	for rack, ports := range map[string]int{"healthy": 4, "of 79": 79, "of 80": 80} {
		var lines bytes.Buffer
		for port := range ports {
			fields := "up=1i,expected_up=1i"
			if port < 8 && rack != "healthy" {
				fields = "up=0i,expected_up=1i"
			}
			fmt.Fprintf(&lines, "rdma_port,rack=%s,host=h%d,device=d%d,port=1 %s %d\n",
				strings.ReplaceAll(rack, " ", `\ `), port/2, port%2, fields, historyStart().UnixNano())
		}
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	rule, _ := ruleNamed(t, "rdma-ports-down-together")
	numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(time.Minute))
	require.NoError(t, err)
	fires := map[string]float64{}
	for _, n := range numbers {
		fires[n.Labels["rack"]] = n.Value
	}
	require.Equal(t, map[string]float64{"of 79": 1, "of 80": 0}, fires)
}

// writeCabledPorts writes ten ports of a rack at ten points in time. At the end, the first ports are down. sharing is the number of
// these ports on each cable; with 0 their cables are unknown. Each port that is up has its own cable.
func writeCabledPorts(lines *bytes.Buffer, rack string, down, sharing int) {
	for port := range 10 {
		for moment := range 10 {
			up, cable := 1, fmt.Sprintf("up%d", port)
			if port < down {
				cable = ""
				if sharing > 0 {
					cable = fmt.Sprintf("down%d", port/sharing)
				}
				if moment >= port {
					up = 0
				}
			}
			fmt.Fprintf(lines, "rdma_port,rack=%s,host=h%d,device=d,port=1 up=%di,expected_up=1i", rack, port, up)
			if cable != "" {
				fmt.Fprintf(lines, ",cable=%q", cable)
			}
			fmt.Fprintf(lines, " %d\n", historyStart().Add(time.Duration(moment*10+port)*time.Second).UnixNano())
		}
	}
}

func TestPortsThatShareACableAreDownTogetherOnce(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	var lines bytes.Buffer
	writeCabledPorts(&lines, "own", 8, 1)
	writeCabledPorts(&lines, "unknown", 8, 0)
	writeCabledPorts(&lines, "shared", 8, 2)
	writeCabledPorts(&lines, "seven", 7, 1)
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	rule, _ := ruleNamed(t, "rdma-ports-down-together")
	numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(2*time.Minute))
	require.NoError(t, err)
	fires := map[string]float64{}
	for _, n := range numbers {
		fires[n.Labels["rack"]] = n.Value
	}
	require.Equal(t, map[string]float64{"own": 1, "unknown": 1, "shared": 0, "seven": 0}, fires)
}

// A pod that borrows devices takes their network devices first: the last state of their ports is down. Then the plugin expects nothing of them.
func TestPortsOfAPodAreNotDownTogether(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	var lines bytes.Buffer
	for rack, of := range map[string]struct{ lent, down int }{"pod": {8, 0}, "dark": {0, 8}, "both": {2, 8}, "seven": {3, 7}} {
		for port := range 12 {
			for moment := range 10 {
				fields := "up=1i,expected_up=1i"
				switch {
				case moment == 0 || port >= of.lent+of.down:
				case port >= of.lent || moment == 1:
					fields = "up=0i,expected_up=1i"
				default:
					fields = "expected_up=0i"
				}
				fmt.Fprintf(&lines, "rdma_port,rack=%s,host=h%d,device=d,port=1 cable=\"c%d\",%s %d\n",
					rack, port, port, fields, historyStart().Add(time.Duration(moment*10+port)*time.Second).UnixNano())
			}
		}
	}
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	rule, _ := ruleNamed(t, "rdma-ports-down-together")
	numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(2*time.Minute))
	require.NoError(t, err)
	fires := map[string]bool{}
	for _, n := range numbers {
		fires[n.Labels["rack"]] = n.Value == 1
	}
	require.Equal(t, map[string]bool{"dark": true, "both": true, "seven": false}, fires)
}

// Points of the simulator's plugin are never late, so these are written by hand.
func TestALatePluginFiresWhenThreeIntervalsWereSkipped(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	var lines bytes.Buffer
	for host, skipped := range map[string][]int{"three": {0, 1, 3}, "two": {7, 8, 9}, "restarted": {5, 0, 1}, "long-ago": {9, 9, 9}} {
		for i, n := range skipped {
			fmt.Fprintf(&lines, "rdma_collector,host=%s skipped_intervals=%di %d\n", host, n, historyStart().Add(time.Duration(i)*time.Minute).UnixNano())
		}
	}
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	rule, _ := ruleNamed(t, "rdma-plugin-late")
	numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(5*time.Minute))
	require.NoError(t, err)
	var late []string
	for _, n := range numbers {
		if n.Value == 1 {
			late = append(late, n.Labels["host"])
		}
	}
	require.Equal(t, []string{"three"}, late)
}

// A plugin without a directory has none of the fields.
func TestRecorderFailsByEitherOfItsCounters(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	var lines bytes.Buffer
	for host, counts := range map[string][3][3]int{ // recorded, errors, lost
		"errors": {{5, 0, 0}, {5, 1, 0}, {9, 1, 0}}, "lost": {{5, 0, 0}, {5, 0, 0}, {5, 0, 7}}, "both": {{0, 2, 1}, {0, 3, 1}, {0, 4, 90}},
		"well": {{5, 0, 0}, {900, 0, 0}, {9000, 0, 0}}, "long-ago": {{5, 4, 9}, {6, 4, 9}, {7, 4, 9}}, "restarted": {{5, 4, 9}, {0, 0, 0}, {1, 0, 0}},
	} {
		for i, n := range counts {
			fmt.Fprintf(&lines, "rdma_collector,host=%s uptime_ns=1i,recorded=%di,record_errors=%di,record_lost=%di %d\n",
				host, n[0], n[1], n[2], historyStart().Add(time.Duration(i)*time.Minute).UnixNano())
		}
	}
	fmt.Fprintf(&lines, "rdma_collector,host=without uptime_ns=1i %d\n", historyStart().UnixNano())
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	rule, _ := ruleNamed(t, "rdma-recorder-failing")
	for after, want := range map[time.Duration][]string{5 * time.Minute: {"both", "errors", "lost"}, 40 * time.Minute: nil} {
		numbers, err := Evaluate(t.Context(), src, rule, historyStart().Add(after))
		require.NoError(t, err)
		var failing []string
		for _, n := range numbers {
			if n.Value == 1 {
				failing = append(failing, n.Labels["host"])
			}
		}
		require.ElementsMatch(t, want, failing, "after %v", after)
	}
}

// At an interval of five minutes the rules of the defaults would see most ports as not there.
func TestRulesForALongIntervalSeeWhatItSends(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "rdma"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	begin := historyStart()
	var lines bytes.Buffer
	c := history.Config{
		Start: begin, End: begin.Add(3 * time.Hour), Interval: 5 * time.Minute,
		Hosts: []history.Host{
			{Name: "down", Profile: "fleet1", Timeline: "[[link]]\nat = \"2h\""},
			{Name: "well", Profile: "fleet1"},
		},
	}
	require.NoError(t, c.Write(t.Context(), &lines))
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	file, err := Rules(writeAssets(t, "-interval", "5m"))
	require.NoError(t, err)
	fired := map[string]map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			w, err := NewWatcher(&r, &g)
			require.NoError(t, err)
			for at := time.Hour; at < 3*time.Hour; at += w.Interval() {
				require.NoError(t, w.Evaluate(t.Context(), src, begin.Add(at+askew)))
				for _, labels := range w.In(Firing) {
					if fired[labels["host"]] == nil {
						fired[labels["host"]] = map[string]bool{}
					}
					fired[labels["host"]][r.UID] = true
				}
			}
		}
	}
	require.Equal(t, map[string]map[string]bool{"down": {"rdma-port-down": true}}, fired)
}
