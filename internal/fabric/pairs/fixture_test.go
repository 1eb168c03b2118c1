package pairs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// net is a network of hosts, each with a Keeper and one device of one port. What a test cuts, stops or restarts is named by hosts.
type net struct {
	t     *testing.T
	began time.Time
	list  string

	mu         sync.Mutex
	nodes      map[string]*node
	cut        map[[2]string]bool // datagrams and writes from the first to the second are lost
	refuses    map[string]error   // of a conversation
	hungUp     map[string]bool    // no process is reached there by TCP
	stopped    map[string]bool    // the worker echoes nothing
	meetings   int
	roundTrip  time.Duration // of State requests
	writesLost bool          // no write is acknowledged
}

// node is a host.
type node struct {
	*net
	name   string
	k      *Keeper
	device string
	last   byte // of its address
	older  bool // it runs a release that names no sessions

	mu      sync.Mutex
	epoch   uint64
	rc      uint32
	joined  map[int]*verbs.FabricPeer
	offered map[int]bool
	orders  []verbs.FabricOrder
	refuse  error         // of orders
	unsent  string        // why the device refuses every probe; "": it does not
	hangs   string        // the device whose orders hang
	slow    time.Duration // that a join takes of the side that probes
	rounds  map[int]*rounds
	talks   map[*talk]bool
	points  []measure.Point
	echoed  map[uint64]uint64 // by session
}

// rounds is what a fake Fabric remembers of a pair.
type rounds struct {
	session          uint64
	seq              uint64
	received, posted [verbs.MaxFabricPaths]uint64
	next             int64
	more             int
	missing          int64 // when the echo that is awaited was asked for; 0: none is
	writing          int64
	failed           bool
	sent, posts      uint64
	asked            bool
}

func newNet(t *testing.T, list string) *net {
	return &net{
		t: t, began: time.Now(), list: list, nodes: map[string]*node{}, cut: map[[2]string]bool{}, refuses: map[string]error{},
		hungUp: map[string]bool{}, stopped: map[string]bool{},
	}
}

func (n *net) mono() int64 { return int64(time.Since(n.began)) + int64(time.Hour) }

func (n *net) parse(list string) *pinglist.List {
	l, err := pinglist.ParseList(strings.NewReader(list))
	require.NoError(n.t, err)
	return l
}

// host starts a host, with its worker.
func (n *net) host(name string) *node { return n.hostOf(name, false) }

// hostOf starts a host, which may run a release that names no sessions.
func (n *net) hostOf(name string, older bool) *node {
	h := &node{
		net: n, name: name, older: older, device: "d0", last: byte(len(n.nodes) + 1), joined: map[int]*verbs.FabricPeer{}, offered: map[int]bool{},
		rounds: map[int]*rounds{}, talks: map[*talk]bool{}, echoed: map[uint64]uint64{},
	}
	seed := rand.New(rand.NewPCG(uint64(len(n.nodes)), 7))
	var random sync.Mutex
	h.k = New(Config{
		Host: name, Peers: 8, Probe: true, Interval: 500 * time.Millisecond, Window: time.Minute, Network: caller{h},
		Orders: func(device string) Orders { return orders{h, device} }, Mono: n.mono,
		Random: func() uint64 {
			random.Lock()
			defer random.Unlock()
			return seed.Uint64()
		},
		Announce: h.announce, Emit: func(p measure.Point) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.points = append(h.points, p)
		}, Log: slog.New(slog.DiscardHandler),
	}, n.parse(n.list))
	n.do(func() { n.nodes[name] = h })
	ctx, stop := context.WithCancel(n.t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.k.Run(ctx) })
	running.Go(func() { h.work(ctx) })
	n.t.Cleanup(running.Wait)
	n.t.Cleanup(stop)
	h.k.PortState(h.device, 1, verbs.PortActive, 0)
	h.renew()
	return h
}

// renew gives the host's port a new Fabric.
func (h *node) renew() {
	h.mu.Lock()
	h.epoch += 1000
	clear(h.joined)
	clear(h.rounds)
	epoch := h.epoch
	h.mu.Unlock()
	h.k.Port(h.device, &verbs.FabricPort{
		Port: 1, Epoch: epoch, LinkLayer: verbs.LinkEthernet, PKey: 0xffff, UD: []uint32{11, 12, 13, 14}, QKey: 7,
		GIDs: []verbs.FabricGID{{Index: 1, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: h.last}}},
	}, 0)
}

// close takes the Fabric away.
func (h *node) close(reason string) {
	h.mu.Lock()
	clear(h.joined)
	clear(h.rounds)
	h.mu.Unlock()
	h.k.Port(h.device, &verbs.FabricPort{Port: 1, Reason: reason}, 0)
}

// orders carries out the orders for a device of a node. Of another device than the node's own, which has no worker here, a test
// makes the Fabric, and it only answers.
type orders struct {
	*node
	of string
}

// otherDevices is added to the places of pairs of other devices than the node's own.
const otherDevices = 1000

// Order implements Orders.
func (h orders) Order(ctx context.Context, o verbs.FabricOrder) (uint32, error) {
	h.mu.Lock()
	slow, hangs := h.slow, h.hangs == h.of
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if o.Peer != nil && o.Peer.Role == verbs.FabricProbes {
		time.Sleep(slow)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders = append(h.orders, o)
	other := h.of != h.device
	if other {
		o.Pair += otherDevices
	}
	switch {
	case h.refuse != nil:
		return 0, h.refuse
	case o.Epoch != h.epoch && !other:
		return 0, verbs.ErrNoFabric
	case o.Offer:
		h.rc++
		h.offered[o.Pair] = true
		return h.rc, nil
	case o.Peer == nil:
		delete(h.joined, o.Pair)
		delete(h.rounds, o.Pair)
		return 0, nil
	case !h.offered[o.Pair]:
		return 0, errors.New("nothing was offered")
	}
	delete(h.offered, o.Pair)
	peer := *o.Peer
	h.joined[o.Pair] = &peer
	h.rounds[o.Pair] = &rounds{session: peer.Session, next: h.mono() + int64(peer.First)}
	return 0, nil
}

// work is the worker: it probes as a Fabric does, and reports every 50 ms. Its ledger is read every ten seconds.
func (h *node) work(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		if n%200 == 0 && !h.older {
			h.k.Ledger(h.device, h.counted(), false)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f := h.look(); f != nil {
			h.k.Facts(h.device, f, 0)
		}
	}
}

// counted returns what the worker has counted of the pairs that it answers.
func (h *node) counted() []ledger.Fabric {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := ledger.Fabric{Port: 1}
	for session, n := range h.echoed {
		f.Pairs = append(f.Pairs, ledger.FabricPair{Session: session, FabricPairCounts: ledger.FabricPairCounts{Answered: n}})
	}
	return []ledger.Fabric{f}
}

func (h *node) look() *verbs.FabricFacts {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &verbs.FabricFacts{Port: 1, Epoch: h.epoch, UpTo: h.mono()}
	for slot := range verbs.MaxFabricPairs {
		peer, r := h.joined[slot], h.rounds[slot]
		if peer != nil && peer.Role == verbs.FabricProbes {
			h.step(f, slot, peer, r)
		}
	}
	return f
}

func (h *node) step(f *verbs.FabricFacts, slot int, peer *verbs.FabricPeer, r *rounds) {
	add := func(fact verbs.FabricFact) {
		fact.Pair, fact.Session, fact.At = slot, r.session, f.UpTo
		f.Facts = append(f.Facts, fact)
	}
	written := func() bool { return !h.writesLost && h.answers(peer, r.session) }
	there, back := !h.cut[[2]string{h.name, peer.Host}], !h.cut[[2]string{peer.Host, h.name}]
	probe := func() {
		if h.unsent != "" {
			add(verbs.FabricFact{Kind: verbs.FabricUnsent, Status: h.unsent})
			return
		}
		path := int(r.seq % verbs.MaxFabricPaths)
		r.seq++
		r.sent++
		add(verbs.FabricFact{Kind: verbs.FabricSent, Path: path, Seq: r.seq})
		if !there || h.stopped[peer.Host] || !h.answers(peer, r.session) {
			if r.missing == 0 {
				r.missing = f.UpTo
			}
			return
		}
		r.received[path]++
		r.posted[path]++
		h.nodes[peer.Host].echo(r.session)
		if !back {
			if r.missing == 0 {
				r.missing = f.UpTo
			}
			return
		}
		r.missing, r.more, r.asked = 0, 0, false
		add(verbs.FabricFact{Kind: verbs.FabricEcho, Path: path, Seq: r.seq, Received: r.received[path], Posted: r.posted[path], Took: 9000, Delay: 1000})
	}
	if r.writing != 0 && !r.failed && there && back && written() {
		add(verbs.FabricFact{Kind: verbs.FabricWriteDone, Took: f.UpTo - r.writing})
		r.writing = 0
	}
	if r.writing != 0 && f.UpTo-r.writing > int64(500*time.Millisecond) {
		add(verbs.FabricFact{Kind: verbs.FabricWriteFailed, Status: "IBV_WC_RETRY_EXC_ERR"})
		r.writing, r.failed = 0, true
	}
	if r.missing != 0 && !r.asked && f.UpTo-r.missing >= verdict.MissingAfter && (r.writing != 0 || r.failed) {
		r.more, r.asked = 3, true
	}
	switch {
	case f.UpTo >= r.next:
		probe()
		if r.writing == 0 && !r.failed {
			r.posts++
			add(verbs.FabricFact{Kind: verbs.FabricWrite})
			if r.writing = f.UpTo; there && back && written() {
				add(verbs.FabricFact{Kind: verbs.FabricWriteDone, Took: 5000})
				r.writing = 0
			}
		}
		r.next += int64(500 * time.Millisecond)
	case r.more > 0:
		r.more--
		probe()
	}
}

// echo counts an echo of a session.
func (h *node) echo(session uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.echoed[session]++
}

// answers reports whether the peer has the other end of a session.
func (h *node) answers(peer *verbs.FabricPeer, session uint64) bool {
	other := h.nodes[peer.Host]
	if other == nil || other == h {
		return false
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	for _, p := range other.joined {
		if p.Session == session && p.Role == verbs.FabricAnswers {
			return true
		}
	}
	return false
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// said returns what was said of the pair with a host, and forgets it.
func (h *node) said(peer string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.points {
		if p, ok := p.(*measure.FabricPeer); ok && p.PeerHost == peer {
			all = append(all, strings.Trim(string(p.Verdict)+" "+string(p.Reason), " "))
		}
	}
	h.points = nil
	return all
}

// port returns the point of the port, which it checks.
func (h *node) port() *measure.FabricPort {
	h.t.Helper()
	var port *measure.FabricPort
	groups := measure.FabricCounts{}
	for _, p := range h.k.Points(time.Now()) {
		switch p := p.(type) {
		case *measure.FabricPort:
			require.Nil(h.t, port)
			port = p
		case *measure.Fabric:
			groups.Add(&p.FabricCounts)
		}
	}
	require.NotNil(h.t, port)
	c := &port.FabricCounts
	require.Equal(h.t, c.Sent, c.Answered+c.ForwardLost+c.ReverseLost+c.BusyLost+c.UnknownLost+c.Pending, "parity")
	require.Equal(h.t, *c, groups, "the groups have what the ports have")
	l := &port.FabricLane
	require.Equal(h.t, l.Events, l.Acked+l.Unacked+l.Released, "parity of events")
	return port
}

// lists returns a list of n hosts in groups of size.
func lists(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d g%d\n", i, i/size)
	}
	return b.String()
}

// dies ends the worker of a host, which has counted more than it has reported.
func (h *node) dies(more uint64) {
	h.mu.Lock()
	f := ledger.Fabric{Port: 1, FabricCounts: ledger.FabricCounts{Events: 100, Acked: 90}}
	for _, r := range h.rounds {
		f.Pairs = append(f.Pairs, ledger.FabricPair{
			Session: r.session, FabricPairCounts: ledger.FabricPairCounts{Sent: r.sent + more, Writes: r.posts + more},
		})
	}
	clear(h.joined)
	clear(h.rounds)
	h.epoch++
	h.mu.Unlock()
	h.k.Ledger(h.device, []ledger.Fabric{f}, true)
}
