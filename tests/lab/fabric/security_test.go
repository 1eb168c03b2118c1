//go:build guest

package fabric

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/tests/lab/guest"
)

// gidOf returns the GID of a host's address in hexadecimal.
func gidOf(n *guest.Network, host int) string {
	a := netip.MustParseAddr(n.Address(host)).As4()
	return "00000000000000000000ffff" + hex.EncodeToString(a[:])
}

// sniffed is a datagram of a pair, and how it was addressed.
type sniffed struct {
	guest.Frame
	datagram
}

// sniff returns a datagram of a kind that a host sends to another one.
func (f *fleet) sniff(from, to int, kind byte) (s sniffed) {
	f.t.Helper()
	found := false
	guest.Capture(f.t, f.net.Netdev(from), time.Minute, func(frame guest.Frame) bool {
		d, ok := parseDatagram(frame.Payload)
		if ok && frame.Sent && frame.Dst == netip.MustParseAddr(f.net.Address(to)) && d.kind == kind {
			s, found = sniffed{frame, d}, true
		}
		return !found
	})
	if !found {
		f.t.Fatalf("h%d sends h%d no datagram of kind %d", from, to, kind)
	}
	return s
}

// TestStrangersGetNoEcho has a program that sees all packets send made-up datagrams to responders and probers.
func TestStrangersGetNoEcho(t *testing.T) {
	f := startFleet(t, plan{hosts: 4})
	f.settleProbes()
	hostile, other := startForger(t, f.net, 1), startForger(t, f.net, 3)
	probed, echoed := f.sniff(1, 2, probe), f.sniff(2, 1, echo)
	if hostile.udQP == probed.SrcQP || other.udQP == echoed.SrcQP {
		t.Fatalf("a forger's queue pair, %d or %d, has the number of a pair's", hostile.udQP, other.udQP)
	}
	change := func(d datagram, how func(*datagram)) []byte {
		how(&d)
		return d.bytes()
	}
	const copies = 20
	for _, forgery := range []struct {
		name    string
		host    int // that gets it
		of      sniffed
		qkey    uint32 // is added
		bytes   []byte
		foreign int64
	}{
		{"a probe that was seen, of another queue pair", 2, probed, 0, probed.bytes(), copies},
		{"a probe of another session", 2, probed, 0, change(probed.datagram, func(d *datagram) { d.session++ }), copies},
		{"a probe of another version", 2, probed, 0, change(probed.datagram, func(d *datagram) { d.version++ }), copies},
		{"a probe of another path", 2, probed, 0, change(probed.datagram, func(d *datagram) { d.path ^= 1 }), copies},
		{"a probe of a path that is not there", 2, probed, 0, change(probed.datagram, func(d *datagram) { d.path = 255 }), copies},
		{"a datagram of another type", 2, probed, 0, change(probed.datagram, func(d *datagram) { d.kind = 3 }), copies},
		{"a probe that is too short", 2, probed, 0, probed.bytes()[:length-1], copies},
		{"a probe that is too long", 2, probed, 0, append(probed.bytes(), 0), copies},
		{"one byte", 2, probed, 0, []byte{'R'}, copies},
		{"a probe with another Q_Key, which the device drops", 2, probed, 1, probed.bytes(), 0},
		{"an echo that was seen, of another queue pair", 1, echoed, 0, echoed.bytes(), copies},
		{"an echo of a probe to come", 1, echoed, 0, change(echoed.datagram, func(d *datagram) { d.seq += 40 }), copies},
		{"an echo to a responder", 2, probed, 0, echoed.bytes(), copies},
	} {
		before := f.foreign(forgery.host)
		from := hostile
		if forgery.host == 1 { // the kernel finds no way from an address to itself
			from = other
		}
		from.send(copies, 20*time.Millisecond, gidOf(f.net, forgery.host), forgery.of.DestQP, forgery.of.QKey+forgery.qkey, forgery.bytes)
		f.settle(2)
		if n := f.foreign(forgery.host) - before; n != forgery.foreign {
			t.Errorf("%s: want %d foreign datagrams of %d, got %d", forgery.name, forgery.foreign, copies, n)
		}
	}
	before, flooded := f.foreign(2), time.Now()
	const flood = 2000
	hostile.send(flood, 500*time.Microsecond, gidOf(f.net, 2), probed.DestQP, probed.QKey, probed.bytes())
	f.settle(2)
	t.Logf("a flood of %d in %v: %d are counted as foreign, and %s", flood, time.Since(flooded).Round(time.Second), f.foreign(2)-before,
		verdictsOrNone(f.since(flooded)))
	for _, h := range []*forger{hostile, other} {
		if a := h.received(); a.received != 0 {
			t.Errorf("a forger got %d datagrams, the last %x", a.received, a.last)
		}
	}
	f.requireNoNetworkVerdict(time.Time{})
	f.awaitWell(time.Minute, allPairs)
}

func verdictsOrNone(all []said) string {
	if len(all) == 0 {
		return "no verdict has changed"
	}
	return fmt.Sprintf("it was said: %v", verdictCounts(all))
}

func (f *fleet) foreign(host int) int64 { return f.hosts[host].port().Int("foreign") }

// TestAHostileHostTouchesNoMemory has a host that holds the key and is in the list meet another one. It asks too often, and
// writes and reads with its reliable connection.
func TestAHostileHostTouchesNoMemory(t *testing.T) {
	const victim, spare = 2, 4
	f := startFleet(t, plan{hosts: 3, spare: 1, extra: "h9 leaf1 " + loopbackAddress(9) + "\n"})
	f.net.AddDevice(spare)
	hostile := startForger(t, f.net, spare)
	conv := f.converseAs("h9", victim)

	a := f.meetAs(conv, victim, hostile, spare, 1)
	if s := hostile.do("write 0 0 0").status; s != "success" {
		t.Errorf("a write of no bytes: want success, got %q", s)
	}
	d := datagram{version: 1, kind: probe, session: 1, seq: 1}
	hostile.send(1, 0, gidOf(f.net, victim), a.Port.UD[0], a.Port.QKey, d.bytes())
	got := hostile.received()
	e, ok := parseDatagram(got.last)
	if !ok || e.kind != echo || e.session != 1 || e.seq != 1 || e.rx != 1 || e.tx != 1 || got.received != 1 {
		t.Fatalf("want an echo, got %d datagrams, the last %+v", got.received, e)
	}

	const asked, aSecond = 200, 20
	before := f.hosts[victim].port()
	hostile.send(aSecond, 5*time.Millisecond, gidOf(f.net, victim), a.Port.UD[0], a.Port.QKey, d.bytes())
	if copies := hostile.received().received - got.received; copies != 0 {
		t.Errorf("want no echo of a copy of a probe, got %d", copies)
	}
	d.seq++
	began := time.Now()
	hostile.sendProbes(asked, time.Millisecond, gidOf(f.net, victim), a.Port.UD[0], a.Port.QKey, d.bytes())
	most := (int(time.Since(began)/time.Second) + 2) * aSecond
	echoes := hostile.received().received - got.received
	f.settle(2)
	after := f.hosts[victim].port()
	refused := int(after.Int("refused") - before.Int("refused"))
	t.Logf("of %d probes in %v %d are echoed and %d refused", asked, time.Since(began).Round(time.Millisecond), echoes, refused)
	if echoes > most || echoes == 0 || refused == 0 || echoes+refused != asked {
		t.Errorf("want some refused, all others echoed, and at most %d echoed", most)
	}

	for _, attempt := range []string{"write 1 7f0000000000 1234", "write 1 0 0", "read 1 7f0000000000 1234", "write 8 1000 ffffffff"} {
		s := hostile.do("%s", attempt).status
		t.Logf("%s: %s", attempt, s)
		if !strings.HasPrefix(s, "remote access error") && !strings.HasPrefix(s, "remote invalid request error") {
			t.Errorf("%s: want it refused by the device, got %q", attempt, s)
		}
		hostile.do("reset")
		a = f.meetAs(conv, victim, hostile, spare, a.session+1)
		if s := hostile.do("write 0 0 0").status; s != "success" {
			t.Errorf("a write of no bytes after another hello: want success, got %q", s)
		}
	}
	f.requireNoMemoryFor(victim)
	f.requireNoNetworkVerdict(time.Time{})
	f.awaitWell(time.Minute, allPairs)
}

// TestWhoKnowsAllNumbersBreaksAConnectionAndReachesNoMemory has a program on the prober's host, whose packets have the prober's
// address, see the packets of a reliable connection and send a write of its own in them.
func TestWhoKnowsAllNumbersBreaksAConnectionAndReachesNoMemory(t *testing.T) {
	const prober, victim, attempts = 1, 2, 10
	f := startFleet(t, plan{hosts: 3})
	f.settleProbes()
	hostile := startForger(t, f.net, prober)
	errors := func() int64 { return f.hosts[prober].port().Int("write_errors") }
	before := errors()
	for i := 1; errors() == before; i++ {
		if i > attempts {
			t.Fatalf("%d forged writes broke no connection", attempts)
		}
		w := f.sniffWrite(prober, victim)
		hostile.do("connect %s %d 0 %d", gidOf(f.net, victim), w.DestQP, (w.PSN+1)&0xffffff)
		status := hostile.do("write 1 7f0000000000 1234").status
		hostile.do("reset")
		f.settle(2)
		t.Logf("attempt %d, to queue pair %d after packet %#x: the forger got %q; %d writes have failed", i, w.DestQP, w.PSN, status, errors()-before)
		if status == "success" {
			t.Error("the forged write was acknowledged")
		}
	}
	broken := time.Now()
	writes := f.hosts[prober].port().Int("writes_ok")
	guest.Eventually(t, "a connection in place of the broken one", time.Minute, func() bool {
		p := f.hosts[prober].port()
		return p.Int("reconnects") > 0 && p.Int("writes_ok") > writes
	})
	t.Logf("met again within %v", time.Since(broken).Round(time.Second))
	f.requireNoMemoryFor(victim)
	f.requireNoNetworkVerdict(time.Time{})
	f.awaitWell(time.Minute, allPairs)
}

// sniffWrite returns a write that a host sends to another one.
func (f *fleet) sniffWrite(from, to int) (w guest.Frame) {
	f.t.Helper()
	guest.Capture(f.t, f.net.Netdev(from), time.Minute, func(frame guest.Frame) bool {
		if frame.Sent && frame.Opcode == guest.OpWrite && frame.Dst == netip.MustParseAddr(f.net.Address(to)) {
			w = frame
		}
		return w.DestQP == 0
	})
	if w.DestQP == 0 {
		f.t.Fatalf("h%d sends h%d no write", from, to)
	}
	return w
}

// answered is the answer to an offer of a session.
type answered struct {
	exchange.Answer
	session uint64
}

// converseAs opens a conversation with a host in the name of another one, with the fleet's key.
func (f *fleet) converseAs(name string, with int) exchange.Conversation {
	f.t.Helper()
	credentials, err := exchange.NewCredentials(name, exchange.Files{Key: f.key}, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	network := exchange.New(exchange.NetworkConfig{Host: name, Credentials: credentials, Port: 14791})
	peer, err := network.Peer(pinglist.Host{Name: hostName(with), Address: loopbackAddress(with)})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	conv, err := peer.Converse(ctx, "0000000000000000")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = conv.Close()
		_ = peer.Close()
	})
	return conv
}

// meetAs offers the forger's queue pairs, as those of a device of the host that converses, and connects its reliable connection.
func (f *fleet) meetAs(conv exchange.Conversation, with int, hostile *forger, spare int, session uint64) answered {
	f.t.Helper()
	const psn = 4711
	gid := netip.MustParseAddr(f.net.Address(spare)).As16()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	a, err := conv.Offer(ctx, exchange.Offer{
		Session: session, RC: hostile.rcQP, PSN: psn,
		Port: exchange.Port{Device: f.net.Device(spare), FabricPort: verbs.FabricPort{
			Port: 1, Epoch: session, LinkLayer: verbs.LinkEthernet, MTU: 1024, PKey: 0xffff,
			GIDs: []verbs.FabricGID{{Index: 1, Raw: gid}}, UD: []uint32{hostile.udQP}, QKey: hostile.qkey,
		}},
	})
	if err != nil || a.Reason != verdict.ReasonNone {
		f.t.Fatalf("want to be met, got %q, %v", a.Reason, err)
	}
	hostile.do("connect %s %d %d %d", gidOf(f.net, with), a.RC, a.PSN, psn)
	return answered{a, session}
}

// requireNoMemoryFor requires that no reliable connection of a host's worker is in a protection domain that has a memory region.
func (f *fleet) requireNoMemoryFor(host int) {
	f.t.Helper()
	domains := func(kind string, fits func(map[string]any) bool) (pds []float64) {
		for _, o := range guest.ResourceDetails(f.t, kind, f.net.Device(host)) {
			if pd, ok := o["pdn"].(float64); ok && fits(o) {
				pds = append(pds, pd)
			}
		}
		return pds
	}
	regions := domains("mr", func(map[string]any) bool { return true })
	connections := domains("qp", func(o map[string]any) bool { return o["type"] == "RC" })
	f.t.Logf("protection domains of memory regions: %v, of reliable connections: %v", regions, connections)
	if len(regions) == 0 || len(connections) == 0 {
		f.t.Error("want memory regions and reliable connections, to compare their protection domains")
	}
	for _, pd := range connections {
		if slices.Contains(regions, pd) {
			f.t.Errorf("protection domain %v of a reliable connection has a memory region", pd)
		}
	}
}
