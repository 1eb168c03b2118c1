package exchange

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
)

// The keys of tests.
const (
	key      = "0123456789abcdef0123456789abcdef"
	otherKey = "another key that has 32 bytes ..."
)

// fakeHandler is the Handler of a host whose list has all hosts except those in unlisted.
type fakeHandler struct {
	digest string
	meet   func(ctx context.Context, host string, o Offer) Answer

	mu       sync.Mutex
	unlisted map[string]bool
	offers   []Offer
	left     []uint64
	ended    [][]uint64
	held     []*Held
	changed  chan struct{} // holds a token when a field above has changed
}

func newFakeHandler() *fakeHandler {
	return &fakeHandler{digest: "00112233aabbccdd", unlisted: map[string]bool{}, changed: make(chan struct{}, 1)}
}

func (h *fakeHandler) update(what func()) {
	h.mu.Lock()
	what()
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// await waits until cond holds. It calls cond with mu held.
func (h *fakeHandler) await(t *testing.T, cond func() bool) {
	t.Helper()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for {
		h.mu.Lock()
		ok := cond()
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-h.changed:
		case <-late.C:
			require.FailNow(t, "the handler was not called")
		}
	}
}

func (h *fakeHandler) Listed(host string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.digest, !h.unlisted[host]
}

func (h *fakeHandler) AnswerOffer(ctx context.Context, host string, o Offer) Answer {
	h.update(func() { h.offers = append(h.offers, o) })
	if h.meet != nil {
		return h.meet(ctx, host, o)
	}
	return Answer{Port: newPort("mlx5_1"), RC: 0x4711, PSN: 0xffffff}
}

func (h *fakeHandler) Leave(_ string, session uint64) {
	h.update(func() { h.left = append(h.left, session) })
}

func (h *fakeHandler) HandleConversationEnd(_ string, sessions []uint64) {
	h.update(func() { h.ended = append(h.ended, sessions) })
}

// Reconcile keeps the sessions below 100, or session 1 of a host that names none.
func (h *fakeHandler) Reconcile(_ string, held *Held) (kept []uint64) {
	h.update(func() { h.held = append(h.held, held) })
	if held == nil {
		return []uint64{1}
	}
	for _, s := range held.Sessions {
		if s < 100 {
			kept = append(kept, s)
		}
	}
	return kept
}

// States reports the sessions from 100 on as lacking.
func (h *fakeHandler) States(_ string, sessions []uint64) (ports []PortState, lacking []uint64) {
	for _, s := range sessions {
		if s >= 100 {
			lacking = append(lacking, s)
		}
	}
	return []PortState{
		{Device: "mlx5_0", Port: 1, Epoch: 7, State: verbs.PortActive}, {Device: "mlx5_1", Port: 255, State: verbs.PortAbsent},
	}, lacking
}

// newPort returns a port in which every transmitted field has a distinct value.
func newPort(device string) Port {
	return Port{Device: device, Position: 3, FabricPort: verbs.FabricPort{
		Port: 2, Epoch: 1 << 63, LinkLayer: verbs.LinkInfiniBand, LID: 0xbfff, MTU: 4096, PKey: 0xffff, NeedsGRH: true,
		GIDs: []verbs.FabricGID{{Index: 1, Raw: [16]byte{0xfe, 0x80, 15: 1}}, {Index: 3, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 9}}},
		UD:   []uint32{2, 3, 4, 0xffffff}, QKey: 0x7fffffff,
	}}
}

func newOffer(session uint64) Offer {
	return Offer{Session: session, Port: newPort("mlx5_0"), RC: 17, PSN: 0x123456, Devices: []string{"mlx5_0", "mlx5_1"}}
}

// keyFile writes a key file and returns its path.
func keyFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
	return path
}

// credentialsOf returns the credentials of a host with a key.
func credentialsOf(t *testing.T, host, key string) *Credentials {
	t.Helper()
	c, err := NewCredentials(host, Files{Key: keyFile(t, key)}, time.Now, nil)
	require.NoError(t, err)
	return c
}

// responder is a host with a Server.
type responder struct {
	*fakeHandler
	server *Server
	name   string
	addr   string
	stop   func()
}

// startResponder starts a host with a Server. change can modify the Server before it serves.
func startResponder(t *testing.T, name string, c *Credentials, change ...func(*Server)) *responder {
	t.Helper()
	return startResponderAt(t, "127.0.0.1:0", name, c, change...)
}

func startResponderAt(t *testing.T, addr, name string, c *Credentials, change ...func(*Server)) *responder {
	t.Helper()
	l, err := Listen(t.Context(), addr)
	require.NoError(t, err)
	h := newFakeHandler()
	s := NewServer(ServerConfig{Host: name, Credentials: c, Handler: h, Now: time.Now})
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-served)
	})
	t.Cleanup(stop)
	return &responder{fakeHandler: h, server: s, name: name, addr: l.Addr().String(), stop: stop}
}

// newPeer returns the Peer with which the host caller connects to a responder.
func newPeer(t *testing.T, r *responder, caller string, c *Credentials, change ...func(*TCP)) Peer {
	t.Helper()
	return newPeerAt(t, pinglist.Host{Name: r.name, Address: r.addr}, caller, c, change...)
}

func newPeerAt(t *testing.T, h pinglist.Host, caller string, c *Credentials, change ...func(*TCP)) Peer {
	t.Helper()
	n := New(NetworkConfig{Host: caller, Credentials: c, Port: 14791})
	for _, f := range change {
		f(n)
	}
	p, err := n.Peer(h)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// testContext returns a context with a timeout longer than any test needs.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// mustConverse opens a conversation.
func mustConverse(t *testing.T, p Peer) Conversation {
	t.Helper()
	c, err := p.Converse(testContext(t), "ffeeddccbbaa9988")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// closedPort returns an address where no process listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
