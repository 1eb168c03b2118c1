//go:build guest

package fabric

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
)

// TestLostConnectionsAndDoubledPacketsBlameNothing resets the TCP connections between six hosts, cuts TCP for 30 s and doubles the
// packets of one link for 2 s. RDMA is whole throughout. A session whose conversation was lost used to end ten minutes later, and a
// datagram that came twice silenced its path.
func TestLostConnectionsAndDoubledPacketsBlameNothing(t *testing.T) {
	cutFor, quiet := 30*time.Second, 12*time.Minute
	if testing.Short() {
		cutFor, quiet = 5*time.Second, 20*time.Second
	}
	guest.Modprobe(t, "tcp_diag", "sch_ingress", "act_skbedit", "act_mirred")
	f := startFleet(t, plan{})
	began := time.Now()
	before := pluginConnections(t)
	t.Logf("%d connections", len(before))

	runCommand(t, "ss", "-K", "-H", "-t", "-n", "sport = "+listens, "or", "dport = "+listens)
	awaitOthers(t, before)
	reset := pluginConnections(t)

	heal := cutTCP(t)
	pauseTest(t, cutFor)
	heal()
	if cutFor > 15*time.Second { // longer than a connection lives whose bytes are not acknowledged
		awaitOthers(t, reset)
	}

	foreign := f.sum("foreign")
	single := f.double(2)
	pauseTest(t, 2*time.Second)
	single()
	guest.Eventually(t, "a host counts the second echo of a probe", 30*time.Second, func() bool { return f.sum("foreign") > foreign })

	pauseTest(t, quiet)
	f.requireNoNetworkVerdict(began)
	for _, h := range f.hosts[1:] {
		if h.port().Int("bad") != 0 {
			t.Errorf("%s blames its own link", h.name)
		}
	}
	f.awaitWell(2*time.Minute, allPairs)
}

// The port on which the plugins listen, and as the end of an address.
const (
	listensAt = 14791
	listens   = ":14791"
)

func runCommand(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// pluginConnections returns the addresses of all established connections to the plugins.
func pluginConnections(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for line := range strings.Lines(runCommand(t, "ss", "-H", "-t", "-n", "state", "established", "dport = "+listens)) {
		if fields := strings.Fields(line); len(fields) >= 4 {
			found[fields[2]+" "+fields[3]] = true
		}
	}
	return found
}

// awaitOthers waits until there are as many connections as before, none of which was there before.
func awaitOthers(t *testing.T, before map[string]bool) {
	t.Helper()
	began := time.Now()
	guest.Eventually(t, fmt.Sprintf("%d other connections", len(before)), 3*time.Minute, func() bool {
		now := pluginConnections(t)
		for c := range before {
			if now[c] {
				return false
			}
		}
		return len(now) >= len(before)
	})
	t.Logf("the plugins talk again after %v", round(time.Since(began)))
}

// cutTCP drops the TCP packets between the plugins, at the receiver, so that the sender does not notice.
func cutTCP(t *testing.T) (heal func()) {
	t.Helper()
	runCommand(t, "tc", "qdisc", "add", "dev", "lo", "clsact")
	there := true
	heal = func() {
		if there {
			there = false
			runCommand(t, "tc", "qdisc", "delete", "dev", "lo", "clsact")
		}
	}
	t.Cleanup(heal)
	for _, port := range []string{"sport", "dport"} {
		runCommand(t, "tc", "filter", "add", "dev", "lo", "ingress", "protocol", "ip", "u32",
			"match", "ip", "protocol", "6", "0xff", "match", "ip", port, listens[1:], "0xffff", "action", "drop")
	}
	return heal
}

// double sends each RoCE packet on the link of a host twice, in both directions. A packet is marked before it is mirrored, so that its copy
// is not mirrored again.
func (f *fleet) double(host int) (single func()) {
	f.t.Helper()
	there := map[string]bool{}
	single = func() {
		for dev := range there {
			delete(there, dev)
			runCommand(f.t, "tc", "qdisc", "delete", "dev", dev, "clsact")
		}
	}
	f.t.Cleanup(single)
	for _, dev := range []string{f.net.Netdev(host), f.net.SwitchPort(host)} {
		runCommand(f.t, "tc", "qdisc", "add", "dev", dev, "clsact")
		there[dev] = true
		runCommand(f.t, "tc", "filter", "add", "dev", dev, "egress", "protocol", "ip", "u32",
			"match", "mark", "0", "0xffffffff", "match", "ip", "dport", "4791", "0xffff",
			"action", "skbedit", "mark", "1", "pipe", "action", "mirred", "egress", "mirror", "dev", dev)
	}
	return single
}
