//go:build guest

package fabric

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// TestEachWitnessSaysWhatItSaw silences one witness after the other: the worker, which echoes; the plugin, which answers when it is
// asked; both; the port; and the device's way.
func TestEachWitnessSaysWhatItSaw(t *testing.T) {
	f := startFleet(t, plan{})
	t.Run("a stopped worker is busy", func(t *testing.T) { f.on(t).stoppedWorker(2) })
	t.Run("a stopped plugin is missed by nobody", func(t *testing.T) { f.on(t).stoppedPlugin(3) })
	t.Run("a cut way to a stopped plugin is a host that is down", func(t *testing.T) { f.on(t).cutWithoutAnswer(4) })
	t.Run("a port that is down says so", func(t *testing.T) { f.on(t).portDown(5) })
	t.Run("a plugin that ends in order leaves nothing", func(t *testing.T) { f.on(t).stoppedInOrder(1) })
	t.Run("a killed plugin is down, and met again when it is back", func(t *testing.T) { f.on(t).killedPlugin(6) })
}

// on returns the fleet with another test to fail.
func (f *fleet) on(t *testing.T) *fleet {
	other := *f
	other.t, other.net = t, f.net.On(t)
	if f.management != nil {
		other.management = f.management.On(t)
	}
	return &other
}

// toHost returns a function that is true for the pairs in which a host is probed. withHost also includes the pairs in which the host
// probes.
func toHost(host int) func(pair) bool { return func(p pair) bool { return p.to == host } }
func withHost(host int) func(pair) bool {
	return func(p pair) bool { return p.to == host || p.from == host }
}

func (f *fleet) signal(pid int, s syscall.Signal) {
	f.t.Helper()
	if pid == 0 {
		f.t.Fatal("there is no process to signal")
	}
	if err := syscall.Kill(pid, s); err != nil {
		f.t.Fatalf("signal process %d: %v", pid, err)
	}
}

// stoppedWorker stops a worker whose plugin lives: its device still acknowledges writes, and State is answered.
func (f *fleet) stoppedWorker(host int) {
	f.t.Helper()
	began := time.Now()
	worker := f.hosts[host].worker()
	f.signal(worker, syscall.SIGSTOP)
	found := f.awaitVerdict("peer_busy", began, time.Minute, toHost(host))
	f.signal(worker, syscall.SIGCONT)
	checkDuration(f.t, "peer_busy", latestOf(found).Sub(began), 3*time.Second)
	f.awaitWell(2*time.Minute, allPairs)
	f.requireNoNetworkVerdict(began)
}

// stoppedPlugin stops a plugin whose worker lives, for longer than any verdict takes. The others notice nothing.
func (f *fleet) stoppedPlugin(host int) {
	f.t.Helper()
	f.settle(2) // a pair that has recovered is listed in one more interval
	began := time.Now()
	f.signal(f.hosts[host].plugin.PID(), syscall.SIGSTOP)
	pauseTest(f.t, 12*time.Second)
	for _, s := range f.since(began) {
		f.t.Errorf("%s says of %s while the plugin of h%d is stopped: %v", s.by, s.of, host, s.Fields)
	}
	f.signal(f.hosts[host].plugin.PID(), syscall.SIGCONT)
	pauseTest(f.t, 3*time.Second)
	f.awaitWell(2*time.Minute, allPairs)
	f.requireNoNetworkVerdict(began)
}

// cutWithoutAnswer cuts the way to a host whose plugin is stopped, so that no witness is left.
func (f *fleet) cutWithoutAnswer(host int) {
	f.t.Helper()
	f.signal(f.hosts[host].plugin.PID(), syscall.SIGSTOP)
	began := f.net.Cut(f.net.To(host), f.net.From(host))
	found := f.awaitVerdict("peer_down", began, time.Minute, toHost(host))
	checkDuration(f.t, "peer_down", latestOf(found).Sub(began), 2*time.Second)
	// The process answers again, and so the way is at fault.
	f.signal(f.hosts[host].plugin.PID(), syscall.SIGCONT)
	cont := time.Now()
	found = f.awaitVerdict("path", began, time.Minute, toHost(host))
	checkDuration(f.t, "path after the process goes on", latestOf(found).Sub(cont), 2*time.Second)
	f.net.Heal()
	f.awaitWell(2*time.Minute, allPairs)
}

// portDown sets the switch port of a host down, so that its device has no link. Its own port says own_port, and nothing of others.
func (f *fleet) portDown(host int) {
	f.t.Helper()
	began := time.Now()
	f.net.SetSwitchPort(host, false)
	found := f.awaitVerdict("peer_port", began, time.Minute, toHost(host))
	checkDuration(f.t, "peer_port", latestOf(found).Sub(began), 2*time.Second)
	f.awaitPort(host, "own_port")
	for _, s := range f.hosts[host].since(began) {
		if s.bad {
			f.t.Errorf("h%d blames the network while its own port is down: %v", host, s.Fields)
		}
	}
	f.net.SetSwitchPort(host, true)
	f.awaitWell(2*time.Minute, allPairs)
	f.awaitPort(host, "ok")
}

func (f *fleet) awaitPort(host int, verdict string) {
	f.t.Helper()
	guest.Eventually(f.t, fmt.Sprintf("h%d says %s of its port", host, verdict), time.Minute, func() bool {
		return f.hosts[host].port().Text("verdict") == verdict
	})
}

// killedPlugin kills a plugin and with it its worker, and starts it again. Its queue pairs are others then.
func (f *fleet) killedPlugin(host int) {
	f.t.Helper()
	began := time.Now()
	f.hosts[host].kill()
	found := f.awaitVerdict("peer_down", began, time.Minute, toHost(host))
	checkDuration(f.t, "peer_down after kill -9", latestOf(found).Sub(began), 2*time.Second)
	f.hosts[host].start()
	f.hosts[host].awaitOpen()
	open := time.Now()
	f.awaitVerdict("ok", open, 3*time.Minute, withHost(host))
	f.t.Logf("all pairs with h%d are well %v after its device is open again", host, elapsedBetween(open, time.Now()))
	f.requireNoNetworkVerdict(began)
}

// stoppedInOrder ends a plugin as Telegraf does. Nothing is left of it, and it is met again when it is back.
func (f *fleet) stoppedInOrder(host int) {
	f.t.Helper()
	began := time.Now()
	f.hosts[host].end()
	checkDuration(f.t, "the end of a plugin with pairs", time.Since(began), 3*time.Second)
	f.awaitVerdict("peer_down", began, time.Minute, toHost(host))
	f.hosts[host].start()
	f.hosts[host].awaitOpen()
	open := time.Now()
	f.awaitVerdict("ok", open, 3*time.Minute, withHost(host))
	f.requireNoNetworkVerdict(began)
}

// TestAHostWhoseOwnLinkIsCutBlamesItself has each host probe all others, so that a host has pairs enough to know.
func TestAHostWhoseOwnLinkIsCutBlamesItself(t *testing.T) {
	f := startFleet(t, plan{oneGroup: true})
	began := f.net.Cut(f.net.To(2), f.net.From(2))
	f.awaitVerdict("path", began, time.Minute, toHost(2))
	f.awaitPort(2, "own_link")
	checkDuration(t, "own_link", time.Since(began), 2*time.Second)
	f.awaitVerdict("own_link", began, time.Minute, func(p pair) bool { return p.from == 2 })
	for _, s := range f.hosts[2].since(began) {
		if s.verdict == "own_link" && s.bad {
			t.Errorf("h2 blames its own link and the network: %v", s.Fields)
		}
	}
	if bad := f.hosts[2].port().Int("bad"); bad != 1 {
		t.Errorf("want the port bad, got %d", bad)
	}
	f.net.Heal()
	f.awaitWell(2*time.Minute, allPairs)
	f.awaitPort(2, "ok")
	for i := 1; i <= f.net.Hosts(); i++ {
		if i != 2 && f.hosts[i].port().Int("bad") != 0 {
			t.Errorf("h%d blames its own link", i)
		}
	}
}

// TestHostsThatDoNotMeetSayWhy has a host with another key, one whose list lacks another one, and one that is not there.
func TestHostsThatDoNotMeetSayWhy(t *testing.T) {
	const otherKey, without, gone = 6, 5, 9
	dir := t.TempDir()
	met := func(p pair) bool {
		return p.from != otherKey && p.to != otherKey && p != pair{1, without} && p != pair{without, 1}
	}
	absent := fmt.Sprintf("%s all %s\n", hostName(gone), loopbackAddress(gone))
	f := startFleet(t, plan{
		oneGroup: true, extra: absent, without: func(p pair) bool { return !met(p) },
		change: func(c *config) {
			switch c.name {
			case hostName(otherKey):
				c.key = filepath.Join(dir, "key")
				writeFile(t, c.key, randomKey())
			case hostName(without):
				list := listOf(6, loopbackAddress, func(int) string { return "all" }) + absent
				_, list, _ = strings.Cut(list, "\n") // the first line is that of h1
				c.list = filepath.Join(dir, "peers")
				writeFile(t, c.list, list)
			}
		},
	})
	reason := func(by, of int, want string) {
		t.Helper()
		guest.Eventually(t, fmt.Sprintf("h%d says of h%d: %s", by, of, want), time.Minute, func() bool {
			s, ok := f.hosts[by].of(hostName(of))
			return ok && s.verdict == "" && s.Text("reason") == want
		})
	}
	for i := 1; i < otherKey; i++ {
		reason(i, otherKey, "key")
		reason(i, gone, "no_responder")
		reason(otherKey, i, "key")
	}
	reason(1, without, "not_listed")
	if s, said := f.hosts[without].of(hostName(1)); said {
		t.Errorf("a host that is not in the list is probed: %v", s.Fields)
	}
	for _, h := range f.hosts[1:] {
		guest.Eventually(t, h.name+" counts its pairs as unmet, and none as bad", time.Minute, func() bool {
			p := h.port()
			return p.Int("pairs")-p.Int("pairs_met") >= 2 && p.Int("pairs_bad") == 0
		})
	}
}
