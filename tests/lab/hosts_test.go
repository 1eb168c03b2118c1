//go:build lab

package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The job is on three hosts, from jobBegan to jobEnded by their clocks. TestHostOfAJobRecords sets the clock of each guest.
const (
	jobBegan = "2026-11-26T10:01:00Z"
	jobEnded = "2026-11-26T10:02:00Z"
)

// jobHosts are the guests, one after the other: what each does before, during and after the job. Nobody but node2 has a fault during
// the job.
var jobHosts = []struct{ name, before, during, after string }{
	{"node1", "flap", "gids", ""},
	{"node2", "gids", "flap", ""},
	{"node3", "", "gids", "flap"},
}

// Each host is a guest of its own, with its own kernel, name, clock and record. The records are copied off them, and read together.
func TestSummaryOfThreeGuestsNamesTheFlap(t *testing.T) {
	if testing.Short() {
		t.Skip("three guests take eight minutes: make test-full PART=hosts")
	}
	v := usualVariant()
	img := prepareImage(t, v.kernel)
	var dirs []string
	for _, h := range jobHosts {
		out := t.TempDir()
		t.Run(h.name, func(t *testing.T) {
			session{
				variant: v, img: img, suites: []suite{system}, tests: system.list(t, recorded), out: out,
				env: []string{"LAB_JOB_HOST=" + h.name, "LAB_JOB_BEFORE=" + h.before, "LAB_JOB_DURING=" + h.during, "LAB_JOB_AFTER=" + h.after},
			}.run(t)
		})
		dirs = append(dirs, filepath.Join(out, "rdma_events"))
	}
	if t.Failed() {
		return
	}
	requireDecoys(t, dirs)

	program := filepath.Join(projectDir(t), "build", "rdma-events")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"events", "-summary", "only", "-since", jobBegan, "-until", jobEnded}, dirs...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read the records of three hosts: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "summary  3 hosts, ") {
		t.Fatalf("want a summary of 3 hosts, got:\n%s", out)
	}
	if !regexp.MustCompile(`^first    .*  node2 rdma0:1  went down \(port_err\).*; recovered after `).MatchString(lines[1]) {
		t.Errorf("want the flap of node2 first, got:\n%s", out)
	}
	if regexp.MustCompile(`(?m)^(then|already) `).Match(out) {
		t.Errorf("want no fault of other hosts, got:\n%s", out)
	}
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "missing") && !strings.Contains(line, "applications were not traced on node1, node2, node3") {
			t.Errorf("want whole records, got: %s", line)
		}
	}
}

// requireDecoys requires that the records have what the summary must not blame: drops before and after the job, and changes of GIDs
// during it.
func requireDecoys(t *testing.T, dirs []string) {
	t.Helper()
	began, errBegan := time.Parse(time.RFC3339, jobBegan)
	ended, errEnded := time.Parse(time.RFC3339, jobEnded)
	if errBegan != nil || errEnded != nil {
		t.Fatal(errBegan, errEnded)
	}
	type seen struct{ drops, during, gids int }
	all := map[string]*seen{}
	program := filepath.Join(projectDir(t), "build", "rdma-events")
	out, err := exec.CommandContext(t.Context(), program, append([]string{"events", "-json"}, dirs...)...).Output()
	if err != nil {
		t.Fatalf("read the records: %v", err)
	}
	for line := range bytes.Lines(out) {
		var r struct {
			Time              time.Time
			Host, Kind, Event string
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		if all[r.Host] == nil {
			all[r.Host] = new(seen)
		}
		during := !r.Time.Before(began) && !r.Time.After(ended)
		switch {
		case r.Event == "port_err" && during:
			all[r.Host].during++
		case r.Event == "port_err":
			all[r.Host].drops++
		case r.Kind == "gid" && during:
			all[r.Host].gids++
		}
	}
	if len(all) != len(jobHosts) {
		t.Fatalf("want records of %d hosts by their names, got %v", len(jobHosts), all)
	}
	for _, h := range jobHosts {
		got := *all[h.name]
		if wantFlap := h.during == "flap"; (got.during > 0) != wantFlap || (got.drops > 0) == wantFlap || (got.gids > 0) == wantFlap {
			t.Errorf("%s: want %+v, got %+v", h.name, h, got)
		}
	}
}
