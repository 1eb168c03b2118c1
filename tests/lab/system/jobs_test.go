//go:build guest

package system

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// jobHost is a host of a job: a plugin with a device and a record of its own, under a name of its own.
type jobHost struct {
	name, device, netdev, records string
}

// startJobHost starts the plugin in a UTS namespace (uts_namespaces(7)) and waits until the port is in its record.
func startJobHost(t *testing.T, number int) *jobHost {
	t.Helper()
	h := &jobHost{
		name: fmt.Sprintf("node%d", number), device: fmt.Sprintf("rdma%d", number), netdev: fmt.Sprintf("d%d", number),
		records: filepath.Join(t.TempDir(), "rdma_events"),
	}
	guest.AddDevice(t, h.device, guest.Driver(), h.netdev)
	h.record(t, "unshare", "--uts", "sh", "-c", "hostname "+h.name+` && exec "$@"`, "sh")
	return h
}

// record starts the plugin, by a command that runs its arguments, and waits until the port is in the host's record.
func (h *jobHost) record(t *testing.T, by ...string) {
	t.Helper()
	rig.StartPlugin(t, by, fmt.Sprintf(`[[inputs.rdma_events]]
  devices = [%q]
  [inputs.rdma_events.probe]
    interval = "0s"
  [inputs.rdma_events.recorder]
    directory = %q
`, h.device, h.records), false)
	h.await(t, "the port", func(r jobRecord) bool { return r.Kind == "port" && r.StateTo == "active" || r.isRise() })
}

// jobRecord is what the test reads of a record.
type jobRecord struct {
	Time    time.Time
	Kind    string
	Host    string
	Event   string
	StateTo string `json:"state_to"`
}

func (r jobRecord) isRise() bool { return r.Event == "port_active" && r.StateTo == "active" }

// readRecords returns the records of hosts.
func readRecords(t *testing.T, args ...string) (all []jobRecord) {
	t.Helper()
	// The status is 1 while a record is being written, and 2 before the first one.
	out, _ := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), append([]string{"events", "-json"}, args...)...).Output()
	for line := range strings.Lines(string(out)) {
		var r jobRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("read %s: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func (h *jobHost) count(t *testing.T, is func(jobRecord) bool) (n int) {
	t.Helper()
	for _, r := range readRecords(t, h.records) {
		if is(r) {
			n++
		}
	}
	return n
}

func (h *jobHost) await(t *testing.T, what string, is func(jobRecord) bool) {
	t.Helper()
	guest.Eventually(t, h.name+" records "+what, time.Minute, func() bool { return h.count(t, is) > 0 })
}

// flap drops the host's link once, and waits until its return is in the record.
func (h *jobHost) flap(t *testing.T) {
	t.Helper()
	before := h.count(t, jobRecord.isRise)
	if _, err := guest.FlapLink(context.Background(), h.netdev, guest.Flaps{Count: 1, Down: 300 * time.Millisecond, Period: time.Second}); err != nil {
		t.Fatal(err)
	}
	guest.Eventually(t, h.name+" records the flap", time.Minute, func() bool { return h.count(t, jobRecord.isRise) > before })
}

// Three hosts record. The link of one drops before the job, of one during it, and of one after it.
func TestSummaryOfThreeHostsNamesTheFlap(t *testing.T) {
	guest.RequireGuest(t)
	var hosts []*jobHost
	var dirs []string
	for number := 1; number <= 3; number++ {
		h := startJobHost(t, number)
		hosts, dirs = append(hosts, h), append(dirs, h.records)
	}
	hosts[0].flap(t)
	began := time.Now()
	hosts[1].flap(t)
	ended := time.Now()
	hosts[2].flap(t)

	window := []string{"-since", began.Format(time.RFC3339Nano), "-until", ended.Format(time.RFC3339Nano)}
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"),
		append(append([]string{"events", "-summary", "only"}, window...), dirs...)...)
	out, _ := cmd.Output() // a record may be being written
	t.Logf("%s", out)
	lines := strings.Split(string(out), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "summary  3 hosts, ") {
		t.Fatalf("want a summary of 3 hosts, got:\n%s", out)
	}
	if !regexp.MustCompile(`^first    .*  node2 rdma2:1  went down \(port_err\).*; recovered after `).MatchString(lines[1]) {
		t.Errorf("want the flap of node2 first, got:\n%s", out)
	}
	if regexp.MustCompile(`(?m)^(then|already) `).Match(out) {
		t.Errorf("want no fault of other hosts, got:\n%s", out)
	}
	var last time.Time
	of := map[string]bool{}
	for _, r := range readRecords(t, dirs...) {
		of[r.Host] = true
		if r.Event != "port_err" {
			continue
		}
		if r.Time.Before(last) {
			t.Errorf("a drop of %s at %s comes after one at %s", r.Host, r.Time, last)
		}
		last = r.Time
	}
	if len(of) != len(hosts) {
		t.Errorf("want records of 3 hosts by their names, got %v", of)
	}
}

// The clock of a host of a job begins at jobClock, and the job lasts from jobBegins to jobEnds after that.
const (
	jobBegins = time.Minute
	jobEnds   = 2 * time.Minute
)

var jobClock = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// TestHostOfAJobRecords makes a guest one host of a job, and leaves its record in /out. The lab boots several guests with it, and reads
// their records together.
func TestHostOfAJobRecords(t *testing.T) {
	guest.RequireGuest(t)
	name := os.Getenv("LAB_JOB_HOST")
	if name == "" {
		t.Fatal("LAB_JOB_HOST is not set: TestSummaryOfThreeGuestsNamesTheFlap in tests/lab runs this test")
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		t.Fatalf("name the host: %v", err)
	}
	h := &jobHost{name: name, device: "rdma0", netdev: "d0", records: filepath.Join(t.TempDir(), "rdma_events")}
	guest.AddDevice(t, h.device, guest.Driver(), h.netdev)
	// The clock is set before the record begins, so that the hosts' times can be compared.
	at := unix.NsecToTimespec(jobClock.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &at); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
	t.Cleanup(func() { // after the plugin has ended
		if out, err := exec.Command("cp", "-r", h.records, "/out/").CombinedOutput(); err != nil {
			t.Errorf("copy the record off the host: %v: %s", err, out)
		}
	})
	h.record(t)
	h.do(t, os.Getenv("LAB_JOB_BEFORE"))
	h.awaitClock(t, jobBegins)
	h.do(t, os.Getenv("LAB_JOB_DURING"))
	h.awaitClock(t, jobEnds)
	h.do(t, os.Getenv("LAB_JOB_AFTER"))
}

// do does something with the host's link.
func (h *jobHost) do(t *testing.T, what string) {
	t.Helper()
	switch what {
	case "flap":
		h.flap(t)
	case "gids":
		isGID := func(r jobRecord) bool { return r.Kind == "gid" }
		before := h.count(t, isGID)
		guest.IP(t, "addr", "add", "10.78.0.1/24", "dev", h.netdev)
		guest.Eventually(t, h.name+" records the GID", time.Minute, func() bool { return h.count(t, isGID) > before })
	}
}

// awaitClock waits until the host's clock shows a time after jobClock, which must not have come yet.
func (h *jobHost) awaitClock(t *testing.T, after time.Duration) {
	t.Helper()
	// The wall clock alone: the monotonic one does not know that it was set.
	left := func() time.Duration { return jobClock.Add(after).Sub(time.Now().Round(0)) }
	if left() <= 0 {
		t.Fatalf("%s: what was to happen before took until %v", h.name, time.Now().UTC())
	}
	guest.Eventually(t, h.name+": the time", 2*jobEnds, func() bool { return left() <= 0 })
}
