//go:build guest

package fabric

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rdma_events/tests/lab/fabric/rpingmesh"
	"rdma_events/tests/lab/guest"
)

// pingmesh is R-Pingmesh's measurement on the devices of a fleet, between the pairs that the fleet has. It sends its own packets
// on the same ways (pingmesh/pingmesh.c).
type pingmesh struct {
	processes []*exec.Cmd // by host, from 1
	mu        sync.Mutex
	probes    []rpingmesh.Probe
}

// factor is how many times longer than the median while nothing is wrong a network RTT has to be to be too long. The paper leaves
// that to the operator.
const factor = 10

func startPingmesh(t *testing.T, n *guest.Network, pairs []pair) *pingmesh {
	t.Helper()
	m := &pingmesh{processes: make([]*exec.Cmd, n.Hosts()+1)}
	inputs := make([]io.WriteCloser, n.Hosts()+1)
	numbers := make([]string, n.Hosts()+1)
	var readers sync.WaitGroup
	for i := 1; i <= n.Hosts(); i++ {
		cmd := exec.Command(os.Getenv("LAB_PINGMESH"), n.Device(i), n.GIDIndex(i), fmt.Sprint(i), "500", "4")
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "me ") {
			t.Fatalf("pingmesh on %s says %q", n.Device(i), lines.Text())
		}
		m.processes[i], inputs[i], numbers[i] = cmd, stdin, strings.TrimPrefix(lines.Text(), "me ")
		readers.Go(func() { m.read(t, n, i, lines) })
	}
	t.Cleanup(func() {
		for i := 1; i <= n.Hosts(); i++ {
			_ = inputs[i].Close()
		}
		readers.Wait()
		for _, cmd := range m.processes[1:] {
			if err := cmd.Wait(); err != nil {
				t.Errorf("pingmesh: %v", err)
			}
		}
	})
	for _, p := range pairs {
		introduce(t, inputs[p.from], p.to, "probe", numbers[p.to])
	}
	for i := 1; i <= n.Hosts(); i++ {
		for k := 1; k <= n.Hosts(); k++ {
			if !slices.Contains(pairs, pair{i, k}) && i != k {
				introduce(t, inputs[i], k, "answer", numbers[k])
			}
		}
	}
	guest.Eventually(t, "answered probes of all pairs", time.Minute, func() bool { return m.answered() == len(pairs) })
	return m
}

// answered returns how many pairs have had an answer.
func (m *pingmesh) answered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	pairs := map[pair]bool{}
	for _, p := range m.probes {
		if !p.TimedOut {
			pairs[pair{p.From, p.To}] = true
		}
	}
	return len(pairs)
}

func introduce(t *testing.T, to io.Writer, host int, role, numbers string) {
	t.Helper()
	if _, err := fmt.Fprintf(to, "host %d %s %s\n", host, role, numbers); err != nil {
		t.Fatal(err)
	}
}

func (m *pingmesh) read(t *testing.T, n *guest.Network, from int, lines *bufio.Scanner) {
	for lines.Scan() {
		var to, path int
		var sent, rtt int64
		if _, err := fmt.Sscan(lines.Text(), &to, &path, &sent, &rtt); err != nil {
			t.Errorf("pingmesh of host %d: %q: %v", from, lines.Text(), err)
			continue
		}
		p := rpingmesh.Probe{
			From: from, To: to, Leaf: n.Leaf(from) == n.Leaf(to), Sent: time.Unix(0, sent), TimedOut: rtt < 0, RTT: time.Duration(max(rtt, 0)),
		}
		m.mu.Lock()
		m.probes = append(m.probes, p)
		m.mu.Unlock()
	}
}

func (m *pingmesh) pid(host int) int { return m.processes[host].Process.Pid }

// rtts returns the network RTTs of what was sent since a moment.
func (m *pingmesh) rtts(since time.Time) (all []time.Duration) {
	for _, p := range m.between(since, time.Now()) {
		if !p.TimedOut {
			all = append(all, p.RTT)
		}
	}
	return all
}

// judge judges what was sent between two moments.
func (m *pingmesh) judge(since, until time.Time, threshold time.Duration) []rpingmesh.Blame {
	return rpingmesh.Judge(m.between(since, until), since, threshold)
}

func (m *pingmesh) between(since, until time.Time) (all []rpingmesh.Probe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.probes {
		if !p.Sent.Before(since) && p.Sent.Before(until) {
			all = append(all, p)
		}
	}
	return all
}

// TestTheFormulaBlamesTheNetworkForACutAndForAStoppedProcess shows that what the fabric is compared with measures.
func TestTheFormulaBlamesTheNetworkForACutAndForAStoppedProcess(t *testing.T) {
	n := guest.AddNetwork(t, 3)
	m := startPingmesh(t, n, []pair{{1, 2}, {2, 1}, {1, 3}, {3, 1}})
	calm := time.Now()
	pause(t, 10*time.Second)
	faults := time.Now()
	rtts := m.rtts(calm)
	t.Logf("%d network RTTs while nothing is wrong: %s", len(rtts), spread(rtts))
	if len(rtts) < 40 || len(rtts) < len(m.between(calm, faults))-len(m.processes) {
		t.Fatalf("want all probes answered, got %d answers of %d", len(rtts), len(m.between(calm, faults)))
	}
	threshold := factor * rpingmesh.Percentile(rtts, 50)
	pulses(t, 10*time.Second, m.pid(2))
	blames := m.judge(faults, time.Now(), threshold)
	t.Logf("while host 2 was stopped in pulses: %s; blames above %v: %+v", spread(m.rtts(faults)), threshold, blames)
	if !slices.ContainsFunc(blames, func(b rpingmesh.Blame) bool { return b.To == 2 }) {
		t.Error("the way to a process that is stopped in pulses is blamed for nothing")
	}
	cut := n.Cut(n.To(3))
	pause(t, 4*time.Second)
	n.Heal()
	blames = m.judge(cut, time.Now(), threshold)
	t.Logf("a cut of the way to host 3 for 4 s; blames: %+v", blames)
	if !slices.ContainsFunc(blames, func(b rpingmesh.Blame) bool { return b.To == 3 && b.TimedOut > 0 }) {
		t.Error("no probe timed out")
	}
}
