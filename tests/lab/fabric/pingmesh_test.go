//go:build guest

package fabric

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
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

func startPingmesh(t *testing.T, f *fleet) *pingmesh {
	t.Helper()
	m := &pingmesh{processes: make([]*exec.Cmd, f.net.Hosts()+1)}
	inputs := make([]io.WriteCloser, f.net.Hosts()+1)
	numbers := make([]string, f.net.Hosts()+1)
	var readers sync.WaitGroup
	for i := 1; i <= f.net.Hosts(); i++ {
		cmd := exec.Command(os.Getenv("LAB_PINGMESH"), f.net.Device(i), f.net.GIDIndex(i), fmt.Sprint(i), "500", "4")
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
			t.Fatalf("pingmesh on %s says %q", f.net.Device(i), lines.Text())
		}
		m.processes[i], inputs[i], numbers[i] = cmd, stdin, strings.TrimPrefix(lines.Text(), "me ")
		readers.Go(func() { m.read(t, f.net, i, lines) })
	}
	t.Cleanup(func() {
		for i := 1; i <= f.net.Hosts(); i++ {
			_ = inputs[i].Close()
		}
		readers.Wait()
		for _, cmd := range m.processes[1:] {
			if err := cmd.Wait(); err != nil {
				t.Errorf("pingmesh: %v", err)
			}
		}
	})
	for _, p := range f.pairs {
		introduce(t, inputs[p.from], p.to, "probe", numbers[p.to])
	}
	for i := 1; i <= f.net.Hosts(); i++ {
		for k := 1; k <= f.net.Hosts(); k++ {
			if !f.has(pair{i, k}) && i != k {
				introduce(t, inputs[i], k, "answer", numbers[k])
			}
		}
	}
	return m
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
