//go:build guest

package neighbours

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/lab/witness"
	"rdma_events/tests/rig"
)

const (
	device = "rdma0"
	netdev = "d0"
)

// statusDir is where a service's plugin keeps its status.
const statusDir = "/run/rdma_events-status"

// How long the tests wait for what the plugin reports: the kernel's lists of queue pairs are read once a minute, and a tracer takes
// seconds to attach in an emulated guest.
const (
	soon   = time.Minute
	listed = 3 * time.Minute
)

// unprivileged runs a program as a user without capabilities, who may lock 64 KiB of memory.
var unprivileged = []string{
	"prlimit", "--memlock=65536:65536", "--",
	"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
}

// company is what runs beside the programs.
type company struct {
	name   string
	config string   // of the plugin; "": no plugin runs
	prefix []string // of the plugin's command line
	owner  int      // of the plugin's processes
	traced bool
}

const withObjects = `[[inputs.rdma_events]]
  [inputs.rdma_events.applications]
    objects = true
`

func companies() []company {
	return []company{
		{name: "alone"},
		{name: "plugin", config: withObjects, prefix: unprivileged, owner: 65534},
		{name: "tracer", config: withObjects + "    events = true\n    hang_after = \"2s\"\n", traced: true},
	}
}

// stage is a guest with one device, in one company.
type stage struct {
	company
	address, gid string // of the device: its IPv4 address, and the index of the GID for it

	plugin   *rig.Telegraf // nil: alone
	problems *problems
	caused   map[string]int64 // events comm_est that the test has caused, by the name of the process
}

// inEachCompany makes a device and runs programs on it in each company. It requires that the kernel logs the same warnings in each, and of
// the plugin what end requires.
func inEachCompany(t *testing.T, run func(t *testing.T, s *stage)) {
	t.Helper()
	guest.RequireGuest(t)
	logVersions(t)
	address := addDevice(t)
	alone := map[string]bool{} // warnings of the kernel
	for _, c := range companies() {
		passed := t.Run(c.name, func(t *testing.T) {
			log := witness.OpenKernelLog(t)
			var events *witness.Events
			if c.traced {
				events = witness.StartEvents(t) // before the tracer, since it looks whether all of its hooks are there
			}
			s := c.start(t, address)
			run(t, s)
			if c.traced {
				s.requireEvents(t, events)
			}
			s.end(t)
			for _, line := range log.Warnings(t) {
				switch {
				case alone[line] || starved.MatchString(line):
				case s.plugin == nil:
					alone[line] = true
					t.Logf("without the plugin the kernel logs: %s", line)
				default:
					t.Errorf("the kernel did not log this without the plugin: %s", line)
				}
			}
		})
		if !passed && c.config == "" {
			t.Fatal("the programs fail without the plugin")
		}
	}
}

// addDevice makes the device until the end of the test, loads the modules that the tests use, and returns its address.
func addDevice(t *testing.T) (address string) {
	t.Helper()
	// Of a dummy netdev, which has no speed, the kernel logs a warning with each query of the port.
	address = guest.AddDeviceOnVeth(t, device, "rxe", netdev, netdev+"p")
	guest.LoadCore(t)
	guest.Modprobe(t, "rdma_ucm")
	guest.LoadInjector(t)
	return address
}

// starved matches what the kernel and the plugin log when the host lets an emulated processor wait.
var starved = regexp.MustCompile(`^hrtimer: interrupt took|^perf: interrupt took too long|is slow to start`)

// logVersions logs which versions of the programs these are.
func logVersions(t *testing.T) {
	t.Helper()
	versions, err := os.ReadFile(os.Getenv("LAB_NEIGHBOURS"))
	if err != nil {
		t.Fatalf("this guest was booted without the programs of others: %v", err)
	}
	t.Logf("Debian's packages:\n%s", versions)
}

// start starts the plugin, if there is one, and returns when it watches the device.
func (c company) start(t *testing.T, address string) *stage {
	t.Helper()
	s := &stage{company: c, address: address, gid: guest.GIDIndex(t, device, address), caused: map[string]int64{}}
	if c.config == "" {
		return s
	}
	if err := os.MkdirAll(statusDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(statusDir, c.owner, c.owner); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(statusDir); err != nil {
			t.Error(err)
		}
	})
	s.plugin = rig.Start(t, rig.Config{Plugin: c.config, Prefix: c.prefix, Interval: "5s", Flush: "1s"})
	s.plugin.Await("the device is open, probed and traced", soon, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_device", "device", device).Int("open") == 1 && rig.Last(points, "rdma_cq_probe").Int("successes") > 0 &&
			(!c.traced || rig.Last(points, "rdma_tracer").Int("attached") == 1)
	})
	s.problems = watchProblems(t)
	return s
}

// end requires that the plugin has seen the programs end, and that nothing has disturbed it or seemed wrong to it.
func (s *stage) end(t *testing.T) {
	t.Helper()
	if s.plugin == nil {
		return
	}
	s.requireObjects(t, "the worker's own after the programs have ended")
	points := s.plugin.Points()
	s.requireHealth(t)
	s.requireUndisturbed(t, points)
	for _, p := range rig.Select(points, "rdma_app_hang") {
		t.Errorf("no program hangs, got %v %v", p.Tags, p.Fields)
	}
	rig.RequireCountersNeverFall(t, points)
	for line := range strings.Lines(s.plugin.Log()) {
		if regexp.MustCompile(` [EW]! \[inputs\.execd\] `).MatchString(line) && !starved.MatchString(line) {
			t.Errorf("want no warning of the plugin, got %s", line)
		}
	}
	s.plugin.Stop()
}

// requireUndisturbed requires that the programs have not disturbed the plugin.
func (s *stage) requireUndisturbed(t *testing.T, points []rig.Point) {
	t.Helper()
	requireFields(t, rig.Last(points, "rdma_device", "device", device), map[string]int64{
		"open": 1, "opens": 1, "removals": 0, "fatals": 0, "worker_restarts": 0, "crashes": 0,
	})
	for _, p := range rig.Select(points, "rdma_cq_probe") {
		if p.Int("errors") != 0 || p.Int("lost_events") != 0 || p.Int("lost_completions") != 0 {
			t.Errorf("want each round of the probe to succeed, got %v %v", p.Tags, p.Fields)
			break
		}
	}
	if s.traced {
		requireFields(t, rig.Last(points, "rdma_tracer"), map[string]int64{
			"attached": 1, "restarts": 0, "gaps": 0, "lost_records": 0, "map_full": 0,
		})
	}
}

func requireFields(t *testing.T, p rig.Point, want map[string]int64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if p.Int(name) != want[name] {
			t.Errorf("%s: want %s %d, got %d", p.Series(), name, want[name], p.Int(name))
		}
	}
}

// requireObjects requires that the plugin reports, once it has read the kernel's lists, the objects that rdma(8) shows now, and returns
// them.
func (s *stage) requireObjects(t *testing.T, what string) witness.Objects {
	t.Helper()
	points := s.plugin.Await("the objects that rdma shows: "+what, listed, func(points []rig.Point) bool {
		got := witness.ObjectsReported(points, device)
		return len(got) > 0 && got.Equal(witness.ObjectsShown(t, device))
	})
	got := witness.ObjectsReported(points, device)
	t.Logf("%s: %v", what, got)
	return got
}

// requireEvents requires that the tracer has counted the events that bpftrace has counted, and of each program those that the test has
// caused: each was read or is gone with its process. The programs themselves cause none on soft RoCE, which raises events of objects only
// for an overrun of a completion queue, the limit of a shared receive queue and a queue pair that is drained.
func (s *stage) requireEvents(t *testing.T, counter *witness.Events) {
	t.Helper()
	for _, app := range slices.Sorted(maps.Keys(s.caused)) {
		n := s.caused[app]
		s.plugin.Await("the events of "+app, soon, func(points []rig.Point) bool {
			p := rig.Last(points, "rdma_app_async", "device", device, "app", app)
			return p.Int("comm_est") == n && p.Int("queued") == p.Int("read")+p.Int("discarded")
		})
	}
	want := counter.Stop(t)
	var queued, read int64
	for _, n := range want.Queued {
		queued += n
	}
	for pid, n := range want.Read {
		if !slices.Contains(s.plugin.Workers(), pid) { // a worker reads the events of ports too
			read += n
		}
	}
	t.Logf("bpftrace has counted %v, of which programs have read %d", want.Queued, read)
	points := s.plugin.Await("the events that bpftrace has counted", soon, func(points []rig.Point) bool {
		return sumOfNewest(points, "queued") == queued && sumOfNewest(points, "read") == read
	})
	for typ, n := range want.Queued {
		if got := sumOfNewest(points, typ); got != n {
			t.Errorf("want %d events %s, got %d", n, typ, got)
		}
	}
	for _, p := range newestPoints(points, "rdma_app_async") {
		if n := p.Int("queued"); n > 0 {
			t.Logf("%s: %d events, %d read, %d discarded", p.Tags["app"], n, p.Int("read"), p.Int("discarded"))
		}
		if app := p.Tags["app"]; p.Int("queued") != s.caused[app] {
			t.Errorf("want %d events of %s, got %v", s.caused[app], app, p.Fields)
		}
	}
}

// sumOfNewest adds up a field of rdma_app_async over all applications.
func sumOfNewest(points []rig.Point, field string) (sum int64) {
	for _, p := range newestPoints(points, "rdma_app_async") {
		sum += max(0, p.Int(field))
	}
	return sum
}

// newestPoints returns the newest point of each series of a measurement.
func newestPoints(points []rig.Point, measurement string) map[string]rig.Point {
	all := map[string]rig.Point{}
	for _, p := range rig.Select(points, measurement) {
		all[p.Series()] = p
	}
	return all
}

// requireHealth requires that the plugin's status has had no problem since it was started, as the alerts judge its points, and has
// nothing pending now.
func (s *stage) requireHealth(t *testing.T) {
	t.Helper()
	seen := s.problems.stop(t)
	if seen.statuses == 0 {
		t.Error("want a status of the plugin, got none")
	}
	for _, p := range seen.problems {
		t.Errorf("want no alert, got %s %s of %s: %s", p.ID, p.Of, p.Device, p.Text)
	}
	if len(seen.pending) > 0 {
		t.Errorf("want nothing pending at the end, got %v", seen.pending)
	}
}

// problems looks at the plugin's status again and again. The alerts judge each interval of the plugin, which writes their verdict into
// the status.
type problems struct {
	quit     chan struct{}
	watching sync.WaitGroup
	stopped  bool

	mu   sync.Mutex
	seen seen
}

// seen is what the statuses have said.
type seen struct {
	statuses int
	last     time.Time
	problems map[health.Problem]health.Problem // the first of each kind, without its text and time as key
	pending  []health.Pending                  // of the last status
	err      error
}

func watchProblems(t *testing.T) *problems {
	t.Helper()
	p := &problems{quit: make(chan struct{}), seen: seen{problems: map[health.Problem]health.Problem{}}}
	p.watching.Go(p.watch)
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *problems) watch() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		p.look()
		select {
		case <-p.quit:
			p.look()
			return
		case <-tick.C:
		}
	}
}

func (p *problems) look() {
	found, err := statusfile.Read(statusDir)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.seen.err = err // there is none before the plugin's first interval
		return
	}
	if !found.Time.After(p.seen.last) {
		return
	}
	p.seen.statuses++
	p.seen.last, p.seen.pending, p.seen.err = found.Time, found.Pending, nil
	for _, one := range found.Problems {
		key := one
		key.Text, key.Since = "", time.Time{}
		if _, known := p.seen.problems[key]; !known {
			p.seen.problems[key] = one
		}
	}
}

// has reports whether a status has had a problem by the name of its alert.
func (p *problems) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.seen.problems {
		if one.ID == id {
			return true
		}
	}
	return false
}

// stop ends the looks, after one more, and returns what they have seen.
func (p *problems) stop(t *testing.T) seen {
	t.Helper()
	if !p.stopped {
		p.stopped = true
		close(p.quit)
		p.watching.Wait()
	}
	if p.seen.err != nil {
		t.Errorf("read the plugin's status: %v", p.seen.err)
	}
	return p.seen
}
