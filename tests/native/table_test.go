package native

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

var update = flag.Bool("update", false, "write testdata/faults.md; look at the difference before you commit it")

const document = "testdata/faults.md"

// row is a line of the document: a fault, and the effects that the test has seen.
type row struct {
	fault    string
	happens  string
	reported []string
	test     string
}

// table collects rows, in the order of the document.
type table struct{ rows []row }

const head = `# Native faults

What comes of a libibverbs that misbehaves: seen by ` + "`go test ./tests/native`" + ` with the real
programs over a stand-in library, and written by it with ` + "`-update`" + `. In every row two
more devices on the same host go on: no restart, no failed round, no line in the log.
DEVICE is the device's name and NODE its node, DELAY a delay and ERRNO the text of the errno.
A worker without a restart that waits tries again at the next hot-plug event, or in 30 s.

| fault | what happens | what is reported | test |
|---|---|---|---|
`

func (tb *table) markdown() string {
	var b strings.Builder
	b.WriteString(head)
	for _, r := range tb.rows {
		if r.reported == nil {
			r.reported = []string{"nothing"}
		}
		reported := strings.ReplaceAll(strings.Join(r.reported, "<br>"), "|", `\|`)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.fault, r.happens, reported, r.test)
	}
	return b.String()
}

// merge replaces the text of errno in the last row with ERRNO. It adds that row to
// the one before if both report the same about the same call.
func (tb *table) merge(errno syscall.Errno) {
	n := len(tb.rows) - 1
	r := &tb.rows[n]
	for i := range r.reported {
		r.reported[i] = strings.ReplaceAll(r.reported[i], errno.Error(), "ERRNO")
	}
	call, name, _ := strings.Cut(r.fault, " fails with ")
	if n == 0 {
		return
	}
	before := &tb.rows[n-1]
	if strings.HasPrefix(before.fault, call+" fails with ") && before.happens == r.happens && slices.Equal(before.reported, r.reported) {
		before.fault += ", " + name
		tb.rows = tb.rows[:n]
	}
}

// groups returns the tests that rows come from.
func (tb *table) groups() map[string]bool {
	names := map[string]bool{}
	for _, r := range tb.rows {
		names[r.test] = true
	}
	return names
}

// compare compares the rows with the document, or writes it.
func (tb *table) compare(t *testing.T) {
	t.Helper()
	got := tb.markdown()
	if *update {
		if err := os.WriteFile(document, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(document)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s: run the test with -update if this is right:\n%s", document, rig.Diff(string(want), got))
	}
}

// varying matches the part of a line in the log that differs from run to run.
var varying = regexp.MustCompile(`\b(restarting in) \S+`)

var nodes = regexp.MustCompile(`/dev/infiniband/uverbs\d+`)

// outcome returns the reports about a device: its reasons, the status of its probe,
// and its lines in the log without traces and without the library's output. For a
// device that is gone it returns only the last reason and the errors: it depends on
// the load whether the removal is found before the worker is replaced.
func (w *world) outcome(points []rig.Point, device string) (reported []string) {
	w.t.Helper()
	seen := rig.Select(points, "rdma_device", "device", device)
	gone := lastPoint(points, "rdma_device", device).Int("present") == 0
	if gone {
		seen = seen[len(seen)-1:]
	}
	for _, p := range seen {
		reason := "reason `" + p.Text("reason") + "`"
		if p.Text("reason") != "ok" && p.Text("reason") != "starting" && !slices.Contains(reported, reason) {
			reported = append(reported, reason)
		}
	}
	if status := lastPoint(points, "rdma_cq_probe", device).Text("status"); status != "" {
		reported = append(reported, "`rdma_cq_probe` status `"+status+"`")
	}
	for _, line := range w.complaints(device) {
		if strings.Contains(line, "worker output") || strings.Contains(line, traceOf) {
			continue
		}
		if gone && !strings.HasPrefix(line, "E! ") {
			continue
		}
		line = nodes.ReplaceAllString(line, "NODE")
		line = varying.ReplaceAllString(strings.ReplaceAll(line, device, "DEVICE"), "$1 DELAY,")
		reported = append(reported, "`"+line+"`")
	}
	return reported
}

const traceOf = ": traceback of the crash: "

// waitingPoint returns the newest point of a device. If the device has waited for longer than one whose worker starts again soon,
// it returns the newest point of that wait. A device that waits for an operator is tried again after 30 s, and not all devices of a test
// have come so far by then on a busy machine.
func waitingPoint(points []rig.Point, device string) rig.Point {
	const soon = 10 * time.Second
	outcome := lastPoint(points, "rdma_device", device)
	var since int64
	for _, p := range rig.Select(points, "rdma_device", "device", device) {
		switch {
		case p.Text("worker_state") != "backing_off":
			since = 0
		case since == 0:
			since = p.Time
		case p.Time-since > int64(soon):
			outcome = p
		}
	}
	return outcome
}

// describeOutcome returns the restarts and the final state of a device.
func describeOutcome(points []rig.Point, device string) string {
	p := waitingPoint(points, device)
	state := "goes on"
	switch {
	case p.Int("present") == 0:
		state = "has gone"
	case p.Int("open") != 1:
		state = "waits (" + p.Text("worker_state") + ")"
	case !isProbing(points, device):
		state = "is open without a probe"
	}
	n := p.Int("worker_restarts")
	if p.Int("present") == 0 {
		return "the device " + state
	}
	if n == 0 {
		return "no restart; the device " + state
	}
	return fmt.Sprintf("%d restart; the device %s", n, state)
}
