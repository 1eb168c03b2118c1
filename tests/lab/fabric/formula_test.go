//go:build guest

package fabric

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"rdma_events/tests/lab/fabric/rpingmesh"
	"rdma_events/tests/lab/guest"
)

// formula is R-Pingmesh's judgement of the probes that a fleet sends, from what passes the hosts' netdevs. The prober's two
// time stamps are the kernel's, there: no prober that is stopped makes them later. The responder's delay is the one that
// its worker measured, by software.
type formula struct {
	fleet *fleet

	mu     sync.Mutex
	probes map[sent]*rpingmesh.Probe
	last   map[uint64]uint32 // the number of the last probe of a session
}

// sent names a probe.
type sent struct {
	session uint64
	seq     uint32
}

// factor is how many times longer than the median while nothing is wrong a network RTT has to be to be too long. The paper leaves
// that to the operator.
const factor = 10

// startFormula listens until the end of the test.
func startFormula(f *fleet) *formula {
	f.t.Helper()
	m := &formula{fleet: f, probes: map[sent]*rpingmesh.Probe{}, last: map[uint64]uint32{}}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	f.t.Cleanup(func() {
		stop()
		readers.Wait()
	})
	for i := 1; i <= f.net.Hosts(); i++ {
		tap := guest.OpenTap(f.t, f.net.Netdev(i))
		readers.Go(func() {
			defer tap.Close()
			if err := tap.Read(ctx, func(frame guest.Frame) bool { m.take(i, frame); return true }); err != nil {
				f.t.Errorf("listen to h%d: %v", i, err)
			}
		})
	}
	return m
}

// take takes a packet that a host has sent or received.
func (m *formula) take(host int, frame guest.Frame) {
	d, ok := parseDatagram(frame.Payload)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ok && frame.Sent && d.kind == probe:
		m.takeProbe(host, m.hostAt(frame.Dst), d, frame.At)
	case ok && !frame.Sent && d.kind == echo:
		m.takeEcho(d, frame.At)
	}
}

// takeProbe adds a probe, and those before it that were lost in the host's own queue: nothing shows when they were sent.
func (m *formula) takeProbe(from, to int, d datagram, at time.Time) {
	first := d.seq
	if last, known := m.last[d.session]; known {
		first = min(last+1, d.seq)
	}
	m.last[d.session] = d.seq
	for seq := first; seq <= d.seq; seq++ {
		m.probes[sent{d.session, seq}] = &rpingmesh.Probe{
			From: from, To: to, Leaf: m.fleet.net.Leaf(from) == m.fleet.net.Leaf(to), Sent: at, TimedOut: true,
		}
	}
}

func (m *formula) takeEcho(d datagram, at time.Time) {
	p := m.probes[sent{d.session, d.seq}]
	if p == nil || !p.TimedOut {
		return // of before the start, or a copy
	}
	if took := at.Sub(p.Sent); took <= rpingmesh.Timeout {
		p.TimedOut, p.RTT = false, took-time.Duration(d.delay)
	}
}

// hostAt returns the host with an address, 0 if there is none.
func (m *formula) hostAt(address netip.Addr) int {
	for i := 1; i <= m.fleet.net.Hosts(); i++ {
		if netip.MustParseAddr(m.fleet.net.Address(i)) == address {
			return i
		}
	}
	return 0
}

// between returns what was sent between two moments.
func (m *formula) between(since, until time.Time) (all []rpingmesh.Probe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.probes {
		if !p.Sent.Before(since) && p.Sent.Before(until) {
			all = append(all, *p)
		}
	}
	slices.SortFunc(all, func(a, b rpingmesh.Probe) int { return a.Sent.Compare(b.Sent) })
	return all
}

// rtts returns the network RTTs of what was sent between two moments and answered.
func (m *formula) rtts(since, until time.Time) (all []time.Duration) {
	for _, p := range m.between(since, until) {
		if !p.TimedOut {
			all = append(all, p.RTT)
		}
	}
	return all
}

// judge judges what was sent since a moment, but for what still has time to be answered.
func (m *formula) judge(since, until time.Time, threshold time.Duration) []rpingmesh.Blame {
	if waits := time.Now().Add(-rpingmesh.Timeout); until.After(waits) {
		until = waits
	}
	return rpingmesh.Judge(m.between(since, until), since, threshold)
}

// threshold returns the longest network RTT that is not too long, by those between two moments when nothing was wrong.
func (m *formula) threshold(since, until time.Time) time.Duration {
	m.fleet.t.Helper()
	rtts := m.rtts(since, until)
	m.fleet.t.Logf("%d network RTTs while nothing is wrong: %s", len(rtts), durationSpread(rtts))
	if len(rtts) == 0 {
		m.fleet.t.Fatal("no probe was answered")
	}
	return factor * rpingmesh.Percentile(rtts, 50)
}

// TestTheFormulaBlamesTheNetworkForACutAndForAStoppedProcess shows that what the fabric is compared with measures.
func TestTheFormulaBlamesTheNetworkForACutAndForAStoppedProcess(t *testing.T) {
	f := startFleet(t, plan{hosts: 4})
	f.settleProbes()
	m := startFormula(f)
	calm := time.Now()
	pauseTest(t, 10*time.Second)
	faults := time.Now()
	threshold := m.threshold(calm, faults)
	pulseProcesses(t, 10*time.Second, f.hosts[2].worker())
	stopped := time.Now()
	blames := m.judge(faults, stopped, threshold)
	t.Logf("while the worker of host 2 was stopped in pulses: %s; blames above %v: %+v", durationSpread(m.rtts(faults, stopped)), threshold, blames)
	if !slices.ContainsFunc(blames, func(b rpingmesh.Blame) bool { return b.To == 2 }) {
		t.Error("the way to a process that is stopped in pulses is blamed for nothing")
	}
	f.awaitWell(time.Minute, allPairs)
	cut := f.net.Cut(f.net.To(3))
	pauseTest(t, 4*time.Second)
	f.net.Heal()
	blames = m.judge(cut, time.Now(), threshold)
	t.Logf("a cut of the way to host 3 for 4 s; blames: %+v", blames)
	if !slices.ContainsFunc(blames, func(b rpingmesh.Blame) bool { return b.To == 3 && b.TimedOut > 0 }) {
		t.Error("no probe timed out")
	}
	f.awaitWell(time.Minute, allPairs)
}
