//go:build guest

package fabric

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/tests/lab/guest"
)

// fleet is hosts of a network, each with a plugin.
type fleet struct {
	t     *testing.T
	net   *guest.Network
	hosts []*host // by number, from 1; the first is nil
	list  string  // the file
	key   string  // the file
	pairs []pair

	management *guest.ManagementNetwork // nil: the hosts talk over the loopback device
}

// pair is a host that probes another one.
type pair struct{ from, to int }

func (p pair) String() string { return fmt.Sprintf("h%d>h%d", p.from, p.to) }

// plan is what a fleet is made of. The zero value of each field is usable.
type plan struct {
	hosts    int               // with a plugin; 0: six
	spare    int               // more hosts of the network, without a device
	oneGroup bool              // all hosts in one group; else the hosts of a leaf are a group
	more     string            // lines of each host's table fabric
	extra    string            // lines of the list
	change   func(c *config)   // what one host has otherwise
	without  func(p pair) bool // pairs that do not meet
	managed  bool              // the hosts talk over a management network, each from a network namespace of its own
}

// peers is how many hosts each one probes, at most.
const peers = 8

// startFleet makes a network, starts a plugin for each host and returns when all pairs are well. The plugins are there before the
// devices, and the devices come one after the other: an emulated processor is slow, and whoever finds no peer tries again later
// and later. When a device comes, its host says so to the others.
func startFleet(t *testing.T, p plan) *fleet {
	t.Helper()
	if p.hosts == 0 {
		p.hosts = 6
	}
	f := &fleet{t: t, net: guest.AddNetworkWithoutDevices(t, p.hosts+p.spare), hosts: make([]*host, p.hosts+1)}
	dir := t.TempDir()
	if p.managed {
		f.management = guest.AddManagementNetwork(t, p.hosts)
	}
	f.list, f.key = filepath.Join(dir, "peers"), filepath.Join(dir, "key")
	list := f.listText(p)
	writeFile(t, f.list, list)
	writeFile(t, f.key, randomKey())
	f.pairs = pairsOf(t, list, p.hosts)
	t.Cleanup(f.judge)
	began := time.Now()
	for i := 1; i <= p.hosts; i++ {
		c := config{
			device: f.net.Device(i), name: hostName(i), list: f.list, key: f.key, listen: f.address(i) + listens, more: p.more,
		}
		if p.change != nil {
			p.change(&c)
		}
		f.hosts[i] = &host{t: t, number: i, name: c.name, device: c.device, config: c.text()}
		if f.management != nil {
			f.hosts[i].prefix = f.management.Enter(i)
		}
		f.hosts[i].start()
	}
	for i := 1; i <= p.hosts; i++ {
		f.hosts[i].awaitInterval()
		f.net.AddDevice(i)
		f.hosts[i].awaitOpen()
	}
	started := time.Now()
	f.awaitWell(2*time.Minute, func(q pair) bool { return p.without == nil || !p.without(q) })
	t.Logf("all devices are open after %v, and all pairs are well %v later", elapsedBetween(began, started), elapsedBetween(started, time.Now()))
	return f
}

func elapsedBetween(from, to time.Time) time.Duration {
	return to.Sub(from).Round(100 * time.Millisecond)
}

func hostName(i int) string        { return fmt.Sprintf("h%d", i) }
func loopbackAddress(i int) string { return fmt.Sprintf("127.0.0.%d", i) }

// address returns the address at which the plugin of a host listens.
func (f *fleet) address(i int) string {
	if f.management != nil {
		return f.management.Address(i)
	}
	return loopbackAddress(i)
}

func randomKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	return string(key)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) listText(p plan) string {
	return listOf(p.hosts, f.address, func(host int) string {
		if p.oneGroup {
			return "all"
		}
		return fmt.Sprintf("leaf%d", f.net.Leaf(host))
	}) + p.extra
}

// listOf returns the lines of some hosts, by their addresses and groups.
func listOf(hosts int, address, group func(host int) string) string {
	var b strings.Builder
	for i := 1; i <= hosts; i++ {
		fmt.Fprintf(&b, "%s %s %s\n", hostName(i), group(i), address(i))
	}
	return b.String()
}

// pairsOf returns who probes whom among the first hosts of a list.
func pairsOf(t *testing.T, text string, hosts int) (all []pair) {
	t.Helper()
	l, err := pinglist.ParseList(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= hosts; i++ {
		for _, p := range l.Pings(hostName(i), peers) {
			if to := numberOf(p.Name); to <= hosts {
				all = append(all, pair{i, to})
			}
		}
	}
	return all
}

// numberOf returns the number of a host by its name.
func numberOf(name string) (n int) {
	_, _ = fmt.Sscanf(name, "h%d", &n) // 0 is no host
	return n
}

// judge fails the test for what no point may have said. The plugins have ended.
func (f *fleet) judge() {
	f.logGreetings()
	for _, h := range f.hosts[1:] {
		if h == nil {
			continue
		}
		for _, w := range h.wrong[:min(len(h.wrong), 10)] {
			f.t.Errorf("%s: %s", h.name, w)
		}
		if len(h.counters) == 0 {
			f.t.Errorf("%s: no counter was seen", h.name)
		}
		if f.t.Failed() {
			f.t.Logf("the log of %s ends with:\n%s", h.name, h.tail(15))
		}
	}
}

// logGreetings logs how often greetings between plugins failed, by what TLS said.
func (f *fleet) logGreetings() {
	failed := map[string]int{}
	for _, h := range f.hosts[1:] {
		if h == nil {
			continue
		}
		for _, line := range h.log {
			if _, why, ok := strings.Cut(line, "error greet "); ok {
				_, why, _ = strings.Cut(why, ": ")
				failed[why]++
			}
		}
	}
	f.t.Logf("greetings that failed: %v", failed)
}

// of returns what was said last of a pair.
func (f *fleet) of(p pair) (said, bool) { return f.hosts[p.from].of(hostName(p.to)) }

// since returns what all hosts said from a moment on, in the order in which it came.
func (f *fleet) since(moment time.Time) (all []said) {
	for _, h := range f.hosts[1:] {
		all = append(all, h.since(moment)...)
	}
	slices.SortStableFunc(all, func(a, b said) int { return a.came.Compare(b.came) })
	return all
}

// awaitVerdict waits until a verdict was said last of all pairs for which of returns true. It returns when each was said first
// after since.
func (f *fleet) awaitVerdict(verdict string, since time.Time, timeout time.Duration, of func(pair) bool) map[pair]time.Time {
	f.t.Helper()
	return f.await("the verdict "+verdict, since, timeout, of, func(s said) bool { return s.verdict == verdict })
}

// await waits until what was said last of each pair for which of returns true fits, and returns when that came.
func (f *fleet) await(what string, since time.Time, timeout time.Duration, of func(pair) bool, fits func(said) bool) map[pair]time.Time {
	f.t.Helper()
	found := map[pair]time.Time{}
	deadline := time.Now().Add(timeout)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		var missing []string
		for _, p := range f.pairs {
			if !of(p) || !found[p].IsZero() {
				continue
			}
			s, ok := f.of(p)
			if ok && s.came.After(since) && fits(s) {
				found[p] = f.first(p, since, fits)
				continue
			}
			missing = append(missing, fmt.Sprintf("%v %v, after %v", p, s.Fields, f.turns(p, since)))
		}
		if len(missing) == 0 {
			return found
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within %v of:\n%s", what, timeout, strings.Join(missing, "\n"))
		}
		<-poll.C
	}
}

// turns returns what was said of a pair since a moment, one after the other: a verdict, or the reason why it has not met.
func (f *fleet) turns(p pair, since time.Time) (all []string) {
	for _, s := range f.hosts[p.from].since(since) {
		now := s.verdict + s.Text("reason")
		if s.of == hostName(p.to) && (len(all) == 0 || all[len(all)-1] != now) {
			all = append(all, now)
		}
	}
	return all
}

// first returns when the host first said of a pair what fits, since a moment.
func (f *fleet) first(p pair, since time.Time, fits func(said) bool) time.Time {
	for _, s := range f.hosts[p.from].since(since) {
		if s.of == hostName(p.to) && fits(s) {
			return s.came
		}
	}
	return time.Time{}
}

// awaitWell waits until all pairs for which of returns true are ok.
func (f *fleet) awaitWell(timeout time.Duration, of func(pair) bool) {
	f.t.Helper()
	f.awaitVerdict("ok", time.Time{}, timeout, of)
}

// allPairs is true for every pair.
func allPairs(pair) bool { return true }

// ways returns the places that packets of a pair pass: those of its probes, and those of what comes back.
func (f *fleet) ways(p pair) (forward, reverse []guest.Place) {
	way := func(from, to int) []guest.Place {
		places := []guest.Place{f.net.From(from), f.net.To(to)}
		if leaf := f.net.Leaf(from); leaf != f.net.Leaf(to) {
			places = append(places, guest.Spine(leaf))
		}
		return places
	}
	return way(p.from, p.to), way(p.to, p.from)
}

// passes reports whether packets of a pair pass one of some places.
func (f *fleet) passes(p pair, places []guest.Place) bool {
	forward, reverse := f.ways(p)
	return slices.ContainsFunc(append(forward, reverse...), func(at guest.Place) bool { return slices.Contains(places, at) })
}

// verdictCounts counts what the hosts said, by verdict.
func verdictCounts(all []said) map[string]int {
	n := map[string]int{}
	for _, s := range all {
		n[s.verdict]++
	}
	return n
}

// requireNoNetworkVerdict requires that nothing said since a moment blames the network.
func (f *fleet) requireNoNetworkVerdict(since time.Time) {
	f.t.Helper()
	for _, s := range f.since(since) {
		if s.bad || slices.Contains(networkVerdicts, s.verdict) {
			f.t.Errorf("%s of %s: %s: %v", s.by, s.of, s.verdict, s.Fields)
		}
	}
}

var networkVerdicts = []string{"path", "partial", "lossy_forward", "lossy_reverse", "lossy_both"}

// sum adds up a field of rdma_fabric_port over all hosts.
func (f *fleet) sum(field string) (n int64) {
	for _, h := range f.hosts[1:] {
		n += max(h.port().Int(field), 0)
	}
	return n
}

// settle waits until so many more intervals of each host have come.
func (f *fleet) settle(intervals int) {
	f.t.Helper()
	for _, h := range f.hosts[1:] {
		for range intervals {
			at := h.port().Time
			guest.Eventually(f.t, "an interval of "+h.name, 30*time.Second, func() bool { return h.port().Time > at })
		}
	}
}

// checkDuration logs how long something took, and fails the test if it took more than ten times the promised time.
func checkDuration(t *testing.T, what string, took, promised time.Duration) {
	t.Helper()
	t.Logf("%s: %v, promised %v", what, took.Round(time.Millisecond), promised)
	if took > 10*promised {
		t.Errorf("%s: took %v, more than ten times %v", what, took, promised)
	}
}

// latestOf returns the last of some times.
func latestOf(times map[pair]time.Time) time.Time {
	return slices.MaxFunc(slices.Collect(maps.Values(times)), time.Time.Compare)
}

// earliestOf returns the first of some times.
func earliestOf(times map[pair]time.Time) time.Time {
	return slices.MinFunc(slices.Collect(maps.Values(times)), time.Time.Compare)
}
