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

// fakeNetwork is a network of hosts, each with a Keeper and one device with one port. Its maps are keyed by host names.
type fakeNetwork struct {
	t     *testing.T
	began time.Time
	list  string

	mu          sync.Mutex
	nodes       map[string]*fakeHost
	cut         map[[2]string]bool // datagrams and writes from the first to the second are lost
	refuses     map[string]error   // errors of conversations and State requests
	unreachable map[string]bool    // the host cannot be reached by TCP
	stopped     map[string]bool    // the worker echoes nothing
	offers      int                // offers sent
	roundTrip   time.Duration      // of State requests
	writesLost  bool               // no write is acknowledged
}

// fakeHost is a host of a fakeNetwork.
type fakeHost struct {
	*fakeNetwork
	name   string
	k      *Keeper
	device string
	last   byte // last byte of its address
	older  bool // it runs a release that names no sessions

	mu            sync.Mutex
	epoch         uint64
	rc            uint32
	joined        map[int]*verbs.FabricPeer
	offered       map[int]bool
	orders        []verbs.FabricOrder
	refuse        error         // error of every order
	unsent        string        // error with which the device refuses every probe; "": it accepts them
	hangs         string        // the device whose orders hang
	late          time.Duration // time from the collection of facts until the Keeper receives them
	slow          time.Duration // duration of a join on the probing side
	rounds        map[int]*pairState
	conversations map[*fakeConversation]bool
	points        []measure.Point
	echoed        map[uint64]uint64 // number of echoes by session
}

// pairState is the state of a pair in a fake Fabric.
type pairState struct {
	session          uint64
	seq              uint64
	received, posted [verbs.MaxFabricPaths]uint64
	next             int64
	more             int
	missing          int64 // time at which the first unanswered probe was sent; 0: none
	writing          int64
	failed           bool
	sent, posts      uint64
	asked            bool
}

func newFakeNetwork(t *testing.T, list string) *fakeNetwork {
	return &fakeNetwork{
		t: t, began: time.Now(), list: list, nodes: map[string]*fakeHost{}, cut: map[[2]string]bool{}, refuses: map[string]error{},
		unreachable: map[string]bool{}, stopped: map[string]bool{},
	}
}

func (n *fakeNetwork) mono() int64 { return int64(time.Since(n.began)) + int64(time.Hour) }

func (n *fakeNetwork) parseList(list string) *pinglist.List {
	l, err := pinglist.ParseList(strings.NewReader(list))
	require.NoError(n.t, err)
	return l
}

// startHost starts a host and its worker.
func (n *fakeNetwork) startHost(name string) *fakeHost { return n.startHostOfRelease(name, false) }

// startHostOfRelease starts a host. older selects a release that names no sessions.
func (n *fakeNetwork) startHostOfRelease(name string, older bool) *fakeHost {
	h := &fakeHost{
		fakeNetwork: n, name: name, older: older, device: "d0", last: byte(len(n.nodes) + 1), joined: map[int]*verbs.FabricPeer{}, offered: map[int]bool{},
		rounds: map[int]*pairState{}, conversations: map[*fakeConversation]bool{}, echoed: map[uint64]uint64{},
	}
	seed := rand.New(rand.NewPCG(uint64(len(n.nodes)), 7))
	var random sync.Mutex
	h.k = New(Config{
		Host: name, Peers: 8, Probe: true, Interval: 500 * time.Millisecond, Window: time.Minute, Network: fakePeers{h},
		Orders: func(device string) Orders { return fakeOrders{h, device} }, Mono: n.mono,
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
	}, n.parseList(n.list))
	n.locked(func() { n.nodes[name] = h })
	ctx, stop := context.WithCancel(n.t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.k.Run(ctx) })
	running.Go(func() { h.runWorker(ctx) })
	n.t.Cleanup(running.Wait)
	n.t.Cleanup(stop)
	h.k.HandlePortState(h.device, 1, verbs.PortActive, 0)
	h.renewFabric()
	return h
}

// renewFabric gives the host's port a new Fabric.
func (h *fakeHost) renewFabric() {
	h.mu.Lock()
	h.epoch += 1000
	clear(h.joined)
	clear(h.rounds)
	epoch := h.epoch
	h.mu.Unlock()
	h.k.HandlePort(h.device, &verbs.FabricPort{
		Port: 1, Epoch: epoch, LinkLayer: verbs.LinkEthernet, PKey: 0xffff, UD: []uint32{11, 12, 13, 14}, QKey: 7,
		GIDs: []verbs.FabricGID{{Index: 1, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: h.last}}},
	}, 0)
}

// closeFabric removes the Fabric of the host's port.
func (h *fakeHost) closeFabric(reason string) {
	h.mu.Lock()
	clear(h.joined)
	clear(h.rounds)
	h.mu.Unlock()
	h.k.HandlePort(h.device, &verbs.FabricPort{Port: 1, Reason: reason}, 0)
}

// fakeOrders carries out the orders for a device of a host. A device other than the host's own has no worker here: a test adds its port,
// and it only answers.
type fakeOrders struct {
	*fakeHost
	of string
}

// otherDevices is added to the slots of pairs of devices other than the host's own.
const otherDevices = 1000

// Order implements Orders.
func (h fakeOrders) Order(ctx context.Context, o verbs.FabricOrder) (uint32, error) {
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
	h.rounds[o.Pair] = &pairState{session: peer.Session, next: h.mono() + int64(peer.First)}
	return 0, nil
}

// runWorker simulates the worker: it probes like a Fabric and reports facts every 50 ms. Its ledger is read every ten seconds.
func (h *fakeHost) runWorker(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		if n%200 == 0 && !h.older {
			h.k.HandleLedger(h.device, h.ledgerCounts(), false)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f := h.collectFacts(); f != nil {
			time.Sleep(h.lateness())
			h.k.HandleFacts(h.device, f, 0)
		}
	}
}

func (h *fakeHost) lateness() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late
}

// ledgerCounts returns the worker's counts of the pairs that it answers.
func (h *fakeHost) ledgerCounts() []ledger.FabricState {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := ledger.FabricState{Port: 1}
	for session, n := range h.echoed {
		f.Pairs = append(f.Pairs, ledger.FabricPair{Session: session, FabricPairCounts: ledger.FabricPairCounts{Answered: n}})
	}
	return []ledger.FabricState{f}
}

func (h *fakeHost) collectFacts() *verbs.FabricFacts {
	h.fakeNetwork.mu.Lock()
	defer h.fakeNetwork.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &verbs.FabricFacts{Port: 1, Epoch: h.epoch, UpTo: h.mono()}
	for slot := range verbs.MaxFabricPairs {
		peer, r := h.joined[slot], h.rounds[slot]
		if peer != nil && peer.Role == verbs.FabricProbes {
			h.stepPair(f, slot, peer, r)
		}
	}
	return f
}

func (h *fakeHost) stepPair(f *verbs.FabricFacts, slot int, peer *verbs.FabricPeer, r *pairState) {
	add := func(fact verbs.FabricFact) {
		fact.Pair, fact.Session, fact.At = slot, r.session, f.UpTo
		f.Facts = append(f.Facts, fact)
	}
	written := func() bool { return !h.writesLost && h.hasResponder(peer, r.session) }
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
		if !there || h.stopped[peer.Host] || !h.hasResponder(peer, r.session) {
			if r.missing == 0 {
				r.missing = f.UpTo
			}
			return
		}
		r.received[path]++
		r.posted[path]++
		h.nodes[peer.Host].countEcho(r.session)
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

// countEcho counts an echo of a session.
func (h *fakeHost) countEcho(session uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.echoed[session]++
}

// hasResponder reports whether the peer has the other end of a session.
func (h *fakeHost) hasResponder(peer *verbs.FabricPeer, session uint64) bool {
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

// passTime lets d pass and waits until all goroutines of the bubble are blocked.
func passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// takeVerdicts returns the emitted verdicts and reasons of the pair with a host, and forgets all emitted points.
func (h *fakeHost) takeVerdicts(peer string) (all []string) {
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

// portPoint returns the point of the port after checking its sums.
func (h *fakeHost) portPoint() *measure.FabricPort {
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
	require.Equal(h.t, *c, groups, "groups and ports have the same sums")
	l := &port.FabricProberCounts
	require.Equal(h.t, l.Events, l.Acked+l.Unacked+l.Released, "parity of events")
	return port
}

// hostList returns a list of n hosts in groups of the given size.
func hostList(n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "h%d g%d\n", i, i/size)
	}
	return b.String()
}

// endWorker ends the worker of a host. The worker has counted more probes and more writes than it has reported.
func (h *fakeHost) endWorker(more uint64) {
	h.mu.Lock()
	f := ledger.FabricState{Port: 1, FabricCounts: ledger.FabricCounts{Events: 100, Acked: 90}}
	for _, r := range h.rounds {
		f.Pairs = append(f.Pairs, ledger.FabricPair{
			Session: r.session, FabricPairCounts: ledger.FabricPairCounts{Sent: r.sent + more, Writes: r.posts + more},
		})
	}
	clear(h.joined)
	clear(h.rounds)
	h.epoch++
	h.mu.Unlock()
	h.k.HandleLedger(h.device, []ledger.FabricState{f}, true)
}
