package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
)

const overviewUID = "rdma-events-fleet"

// answer has the times of a query: the first one, and the slowest of the later ones.
type answer struct {
	title, ref  string
	first, then time.Duration
	series      int
}

// repeats is how often a query is run again.
const repeats = 3

// askOverview runs every query of the Overview dashboard as Grafana would send it, one
// after the other.
func askOverview(ctx context.Context, db *influx.Server, root, policy string, r grafana.Range) ([]answer, error) {
	boards, err := grafana.Dashboards(root)
	if err != nil {
		return nil, err
	}
	overview := boards[overviewUID]
	if overview == nil {
		return nil, fmt.Errorf("no dashboard %s below %s", overviewUID, root)
	}
	requests, err := grafana.Requests(overview, grafana.Choice{"policy": {policy}}, r)
	if err != nil {
		return nil, err
	}
	return runQueries(ctx, db, requests)
}

// askRules runs the queries of every alert rule, as if it were evaluated at a
// moment.
func askRules(ctx context.Context, db *influx.Server, root string, at time.Time) ([]answer, error) {
	file, err := grafana.Rules(root)
	if err != nil {
		return nil, err
	}
	var requests []grafana.Request
	for _, g := range file.Groups {
		for i := range g.Rules {
			requests = append(requests, grafana.RuleRequests(&g.Rules[i], at)...)
		}
	}
	return runQueries(ctx, db, requests)
}

func runQueries(ctx context.Context, db *influx.Server, requests []grafana.Request) ([]answer, error) {
	var all []answer
	for _, q := range requests {
		a := answer{title: q.Title, ref: q.RefID}
		for i := range 1 + repeats {
			began := time.Now()
			series, err := db.Query(ctx, place.Database, q.Query)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", q.Title, err)
			}
			took := time.Since(began)
			if i == 0 {
				a.first, a.series = took, len(series)
			} else {
				a.then = max(a.then, took)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// totalTime returns the time that it takes to run all queries again.
func totalTime(all []answer) time.Duration {
	var d time.Duration
	for _, a := range all {
		d += a.then
	}
	return d
}

func slowestQuery(all []answer) time.Duration {
	var d time.Duration
	for _, a := range all {
		d = max(d, a.first, a.then)
	}
	return d
}

func answerTable(all []answer) string {
	slices.SortStableFunc(all, func(a, b answer) int { return int(b.first - a.first) })
	var b strings.Builder
	b.WriteString("| title | query | series | first, ms | again, ms |\n|---|---|---|---|---|\n")
	for _, a := range all {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", a.title, a.ref, a.series, a.first.Milliseconds(), a.then.Milliseconds())
	}
	return b.String()
}

// runContinuousQueries runs once the statements that the continuous queries run every
// five minutes, and reports how long all of them take.
func runContinuousQueries(ctx context.Context, db *influx.Server, end time.Time, say func(string, ...any)) error {
	var whole time.Duration
	for _, statement := range influxdb.Selects(end.Add(-10*time.Minute), end) {
		began := time.Now()
		if _, err := db.Query(ctx, "", statement); err != nil {
			return err
		}
		whole += time.Since(began)
	}
	say("continuous queries, all, for the last 10 minutes: %.1f s\n", whole.Seconds())
	return nil
}

// seriesCount returns the number of series of the database.
func seriesCount(ctx context.Context, db *influx.Server) (int64, error) {
	got, err := db.Query(ctx, place.Database, "SHOW SERIES EXACT CARDINALITY ON "+influx.Quote(place.Database))
	if err != nil {
		return 0, err
	}
	var all int64
	for i := range got {
		for _, v := range got[i].Column("count") {
			n, err := v.(json.Number).Int64()
			if err != nil {
				return 0, err
			}
			all += n
		}
	}
	return all, nil
}

// dirSize returns the number of bytes of the files below a directory.
func dirSize(dir string) (int64, error) {
	var all int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all += info.Size()
		}
		return err
	})
	return all, err
}

// residentMemory returns the resident set of a process in bytes (proc(5), status), 0 if it
// is not known.
func residentMemory(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64) // 0 is not known
	return kib << 10
}
