package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

var update = flag.Bool("update", false, "write what comes as the expected output; look at the difference before you commit it")

// patience is how long a scenario may take. All of them end within 26 seconds
// of the plugin's start.
const patience = 2 * time.Minute

func TestGolden(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("testcases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no test cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			awaitGolden(t, dir)
		})
	}
}

// awaitGolden waits until the newest point of every series and the sums of all events and changes are as expected. They stay the
// same once a scenario is over, so the test does not depend on the times at which points arrive.
func awaitGolden(t *testing.T, dir string) {
	scenario, err := os.ReadFile(filepath.Join(dir, "scenario.toml"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := os.ReadFile(filepath.Join(dir, "rdma_events.conf"))
	if err != nil {
		t.Fatal(err)
	}
	// The test copies the scenario: root's worker has no capabilities and may not enter another user's home, where this
	// checkout may be.
	r := rig.Start(t, rig.Config{Plugin: strings.ReplaceAll(string(conf), "SCENARIO", writeScenario(t, string(scenario)))})
	file := filepath.Join(dir, "expected.out")
	if *update {
		writeWhenSettled(t, r, file)
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	deadline := time.Now().Add(patience)
	r.Await("any point", patience, func(points []rig.Point) bool {
		if outcomeText(points) == string(want) {
			return true
		}
		if time.Now().After(deadline.Add(-time.Second)) {
			t.Fatalf("unexpected outcome:\n%s\nthe log:\n%s", rig.Diff(string(want), outcomeText(points)), r.Log())
		}
		return false
	})
}

func writeWhenSettled(t *testing.T, r *rig.Telegraf, file string) {
	t.Helper()
	last, since := "", time.Now()
	points := r.Await("a settled outcome", patience, func(points []rig.Point) bool {
		if now := outcomeText(points); now != last {
			last, since = now, time.Now()
		}
		return last != "" && time.Since(since) > 12*time.Second
	})
	if err := os.WriteFile(file, []byte(outcomeText(points)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// outcomeText summarizes all points as text: the newest point of each series for measurements that are written at every interval,
// and sums for measurements that are written when something happens.
func outcomeText(points []rig.Point) string {
	lines := map[string]string{}
	sums := map[string]map[string]int64{}
	for _, p := range points {
		switch p.Measurement {
		case "rdma_async_event":
			addToSum(sums, p, "count")
		case "rdma_port_change":
			addToSum(sums, p, "transitions")
		case "rdma_evidence": // how many come, and what they find, depends on when they are taken
			lines[p.Series()] = "comes"
		default:
			lines[p.Series()] = fieldsOf(p)
		}
	}
	for series, fields := range sums {
		for field, sum := range fields {
			lines[series] = fmt.Sprintf("sum of %s=%d", field, sum)
		}
	}
	var b strings.Builder
	for _, series := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s %s\n", series, lines[series])
	}
	return b.String()
}

func addToSum(sums map[string]map[string]int64, p rig.Point, field string) {
	if sums[p.Series()] == nil {
		sums[p.Series()] = map[string]int64{}
	}
	sums[p.Series()][field] += p.Int(field)
}

// fieldsOf returns the fields of a point as text. For a field that depends on the
// machine or the moment, the text has only the type and whether the value is zero;
// for a field that depends on the load, only the type.
func fieldsOf(p rig.Point) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.Fields)) {
		if comesAndGoes(name) {
			continue
		}
		value := p.Fields[name]
		if dependsOnLoad(name) || fieldVaries(p.Measurement, name) && value != int64(0) {
			out = append(out, fmt.Sprintf("%s=<%T>", name, value))
		} else {
			out = append(out, fmt.Sprintf("%s=%v", name, value))
		}
	}
	return strings.Join(out, ",")
}

// comesAndGoes is true for fields that a point has only if there was something to
// measure in its interval.
func comesAndGoes(field string) bool {
	for _, stem := range []string{"hold_ns", "ack_ns", "wake_ns", "total_ns", "get_ns", "arm_ns", "drain_ns", "took_ns", "delivery_ns"} {
		if strings.HasPrefix(field, stem) {
			return true
		}
	}
	return false
}

// dependsOnLoad is true for fields that are 0 on a quiet machine, and may be more on a busy one.
func dependsOnLoad(field string) bool {
	return field == "queue_length" || field == "merged_points" || field == "skipped_intervals" || field == "evidence_merged"
}

func fieldVaries(measurement, field string) bool {
	if strings.HasSuffix(field, "_rate") || strings.HasSuffix(field, "_ns") {
		return true
	}
	switch field {
	case "rss_bytes", "worker_rss_bytes":
		return true
	case "calls":
		return measurement == "rdma_command"
	case "text": // it may have a count
		return measurement == "rdma_problem"
	case "rounds", "successes", "errors", "lost_events", "lost_completions", "events", "acked", "late", "spurious", "resent", "disturbed",
		"wake_bucket", "wake_ns_sum":
		return strings.HasPrefix(measurement, "rdma_cq_probe") || measurement == "rdma_host"
	}
	return false
}
