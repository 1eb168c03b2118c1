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

// holder answers as a host does whose list has all hosts but those in unlisted. It implements Handler.
type holder struct {
	digest string
	meet   func(ctx context.Context, host string, o Offer) Answer

	mu       sync.Mutex
	unlisted map[string]bool
	offers   []Offer
	left     []uint64
	ended    [][]uint64
	held     []*Held
	changed  chan struct{} // has one when something above has changed
}

func newHolder() *holder {
	return &holder{digest: "00112233aabbccdd", unlisted: map[string]bool{}, changed: make(chan struct{}, 1)}
}

func (h *holder) did(what func()) {
	h.mu.Lock()
	what()
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// await waits until cond holds, of what mu guards.
func (h *holder) await(t *testing.T, cond func() bool) {
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

func (h *holder) Listed(host string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.digest, !h.unlisted[host]
}

func (h *holder) Meet(ctx context.Context, host string, o Offer) Answer {
	h.did(func() { h.offers = append(h.offers, o) })
	if h.meet != nil {
		return h.meet(ctx, host, o)
	}
	return Answer{Port: port("mlx5_1"), RC: 0x4711, PSN: 0xffffff}
}

func (h *holder) Leave(_ string, session uint64) {
	h.did(func() { h.left = append(h.left, session) })
}

func (h *holder) Ended(_ string, sessions []uint64) {
	h.did(func() { h.ended = append(h.ended, sessions) })
}

// Reconcile keeps the sessions below 100, or session 1 of a host that names none.
func (h *holder) Reconcile(_ string, held *Held) (kept []uint64) {
	h.did(func() { h.held = append(h.held, held) })
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

// States lacks the sessions from 100 on.
func (h *holder) States(_ string, sessions []uint64) (ports []PortState, lacking []uint64) {
	for _, s := range sessions {
		if s >= 100 {
			lacking = append(lacking, s)
		}
	}
	return []PortState{
		{Device: "mlx5_0", Port: 1, Epoch: 7, State: verbs.PortActive}, {Device: "mlx5_1", Port: 255, State: verbs.PortAbsent},
	}, lacking
}

// port returns a port in which every member that is sent has a value of its own.
func port(device string) Port {
	return Port{Device: device, Position: 3, FabricPort: verbs.FabricPort{
		Port: 2, Epoch: 1 << 63, LinkLayer: verbs.LinkInfiniBand, LID: 0xbfff, MTU: 4096, PKey: 0xffff, NeedsGRH: true,
		GIDs: []verbs.FabricGID{{Index: 1, Raw: [16]byte{0xfe, 0x80, 15: 1}}, {Index: 3, Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 9}}},
		UD:   []uint32{2, 3, 4, 0xffffff}, QKey: 0x7fffffff,
	}}
}

func offer(session uint64) Offer {
	return Offer{Session: session, Port: port("mlx5_0"), RC: 17, PSN: 0x123456, Devices: []string{"mlx5_0", "mlx5_1"}}
}

// keyFile writes a key.
func keyFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
	return path
}

// credentialsOf returns the credentials of a host that has a key.
func credentialsOf(t *testing.T, host, key string) *Credentials {
	t.Helper()
	c, err := NewCredentials(host, Files{Key: keyFile(t, key)}, time.Now, nil)
	require.NoError(t, err)
	return c
}

// responder is a host that answers.
type responder struct {
	*holder
	server *Server
	name   string
	addr   string
	stop   func()
}

// respond starts a host. With change the Server is another than usual.
func respond(t *testing.T, name string, c *Credentials, change ...func(*Server)) *responder {
	t.Helper()
	return respondAt(t, "127.0.0.1:0", name, c, change...)
}

func respondAt(t *testing.T, addr, name string, c *Credentials, change ...func(*Server)) *responder {
	t.Helper()
	l, err := Listen(t.Context(), addr)
	require.NoError(t, err)
	h := newHolder()
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
	return &responder{holder: h, server: s, name: name, addr: l.Addr().String(), stop: stop}
}

// reach returns what reaches a responder as the host caller.
func reach(t *testing.T, r *responder, caller string, c *Credentials, change ...func(*TCP)) Peer {
	t.Helper()
	return reachAt(t, pinglist.Host{Name: r.name, Address: r.addr}, caller, c, change...)
}

func reachAt(t *testing.T, h pinglist.Host, caller string, c *Credentials, change ...func(*TCP)) Peer {
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

// soon returns a context of a time that no test needs.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// converse opens a conversation.
func converse(t *testing.T, p Peer) Conversation {
	t.Helper()
	c, err := p.Converse(soon(t), "ffeeddccbbaa9988")
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
