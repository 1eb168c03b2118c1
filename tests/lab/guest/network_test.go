//go:build guest

package guest

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// pingpongSucceeds runs one of libibverbs' example programs on the devices of two hosts, and reports whether all messages came
// back within the limit. The two processes exchange their addresses over a TCP port.
func pingpongSucceeds(t *testing.T, n *Network, program string, from, to, port, messages int, limit time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	args := func(host int) []string {
		return []string{"-d", n.Device(host), "-g", n.GIDIndex(host), "-n", strconv.Itoa(messages), "-p", strconv.Itoa(port)}
	}
	server := exec.CommandContext(ctx, program, args(to)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, program+" listens", 10*time.Second, func() bool { return slices.Contains(ListeningPorts(t), port) })
	out, err := exec.CommandContext(ctx, program, append(args(from), "127.0.0.1")...).CombinedOutput()
	t.Logf("%s from %d to %d: %v: %s", program, from, to, err, out)
	if err != nil {
		cancel()
	}
	return server.Wait() == nil && err == nil
}

func TestHostsOfANetworkReachEachOtherThroughTheirLeaves(t *testing.T) {
	n := AddNetwork(t, 4)
	for _, way := range []struct {
		name     string
		from, to int
		spine    bool
	}{{"in one leaf", 1, 2, false}, {"across", 1, 4, true}} {
		before := n.Passed(Spine(1))
		if !pingpongSucceeds(t, n, "ibv_ud_pingpong", way.from, way.to, 18600+way.to, 20, 20*time.Second) {
			t.Errorf("%s: datagrams did not come back", way.name)
		}
		if !pingpongSucceeds(t, n, "ibv_rc_pingpong", way.from, way.to, 18610+way.to, 20, 20*time.Second) {
			t.Errorf("%s: messages did not come back", way.name)
		}
		after := n.Passed(Spine(1))
		for _, k := range []Kind{Datagrams, Writes, Acks} {
			if passed := after[k].Sub(before[k]).Packets; (passed >= 20) != way.spine {
				t.Errorf("%s: %d packets of kind %d passed the spine", way.name, passed, k)
			}
		}
	}
	n.SetSwitchPort(1, false)
	if state, _ := LinkState(t, n.Device(2), 1); state != "active" {
		t.Errorf("want the port of another host active while a switch port is down, got %s", state)
	}
	n.SetSwitchPort(1, true)
}

func TestAPlaceLosesWhatItIsAskedToAndCountsIt(t *testing.T) {
	n := AddNetwork(t, 2)
	n.Lose(n.To(2), 1, Datagrams)
	if pingpongSucceeds(t, n, "ibv_ud_pingpong", 1, 2, 18620, 5, 5*time.Second) {
		t.Error("datagrams came back")
	}
	if lost := n.Passed(n.To(2))[Datagrams]; lost.Dropped == 0 || lost.Packets != 0 {
		t.Errorf("want all datagrams dropped, got %+v", lost)
	}
	if !pingpongSucceeds(t, n, "ibv_rc_pingpong", 1, 2, 18621, 5, 20*time.Second) {
		t.Error("messages of a reliable connection were lost too")
	}
	n.Cut(n.From(1))
	if pingpongSucceeds(t, n, "ibv_rc_pingpong", 1, 2, 18622, 5, 5*time.Second) {
		t.Error("messages passed a cut")
	}
	if n.Dropped(Writes) == 0 {
		t.Error("the cut dropped no packet of a reliable connection")
	}
	n.Heal()
	pinged := make(chan bool, 1)
	go func() { pinged <- pingpongSucceeds(t, n, "ibv_ud_pingpong", 1, 2, 18630, 20, 20*time.Second) }()
	requireBothDirections(t, n.Netdev(1), 20)
	if !<-pinged {
		t.Error("datagrams did not come back after the cut")
	}
}

// requireBothDirections requires that a capture has so many datagrams each way, from one source port.
func requireBothDirections(t *testing.T, netdev string, count int) {
	t.Helper()
	sent, received := 0, 0
	ports := map[uint16]bool{}
	Capture(t, netdev, 20*time.Second, func(f Frame) bool {
		if f.Opcode != OpDatagram || f.SrcQP == 0 || len(f.Payload) == 0 {
			t.Errorf("want datagrams only, got %+v", f)
		}
		if f.Sent {
			sent++
			ports[f.SourcePort] = true
		} else {
			received++
		}
		return sent < count || received < count
	})
	if sent < count || received < count || len(ports) != 1 {
		t.Errorf("want %d datagrams each way from one source port, got %d and %d from %v", count, sent, received, ports)
	}
}
