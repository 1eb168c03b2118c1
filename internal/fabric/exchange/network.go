package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/sys/sanitize"
)

// NetworkConfig is the configuration of a TCP.
type NetworkConfig struct {
	Host        string // of this host in the list
	Credentials *Credentials
	Port        int // where hosts listen whose address has no port
	// Dial connects to an address of the form host:port. If it is nil, connections are made over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// TCP is the Network of real hosts. Its methods may be called concurrently.
type TCP struct {
	config NetworkConfig
	limits limits
	speaks versions
	counts counters
}

// New returns a TCP. It does not connect to any host yet.
func New(c NetworkConfig) *TCP {
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	return &TCP{config: c, limits: ownLimits(), speaks: ownVersions}
}

// Counts returns what was counted of the conversations with all peers: only Conversed, Malformed and Unknown.
func (n *TCP) Counts() Counts { return n.counts.counts() }

// Peer implements Network.
func (n *TCP) Peer(h pinglist.Host) (Peer, error) {
	if h.Name == "" || h.Address == "" {
		return nil, errors.New("reach a host: it has no name or no address")
	}
	p := &remote{
		network: n, host: h.Name, address: addressOf(h.Address, n.config.Port), connecting: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return p, nil
}

// addressOf returns an address with a port.
func addressOf(address string, port int) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}

// remote is a host that is reached over TCP. It implements Peer.
type remote struct {
	network *TCP
	host    string
	address string

	ctx    context.Context // until Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // of calls and of goroutines of conversations; it grows under mu

	connecting chan struct{} // held by who uses link
	link       *link         // nil: none
}

// The bounds where ctx has none.
const (
	connectLasts = 10 * time.Second
	leavingLasts = time.Second // until the host has read what was said last
)

// errClosed is the end of what its own side has closed.
var errClosed = net.ErrClosed

// State implements Peer.
func (p *remote) State(ctx context.Context, sessions []uint64) (State, error) {
	var state State
	request := &proto.StateRequest{Host: sanitize.UTF8(p.network.config.Host), Sessions: sessions[:min(len(sessions), mostSessions)]}
	err := p.call(ctx, func(ctx context.Context, l *link) error {
		m, err := proto.NewHelloClient(l.conn).State(ctx, request)
		if err != nil {
			return err
		}
		p.network.countUnknown(m)
		if state, err = stateFromProto(m); err != nil {
			p.network.counts.malformed.Add(1)
			return judgement{err}
		}
		return nil
	})
	if err != nil {
		return State{}, fmt.Errorf("ask %s for its state: %w", p.host, err)
	}
	return state, nil
}

// Converse implements Peer.
func (p *remote) Converse(ctx context.Context, digest string) (Conversation, error) {
	var c *conversation
	err := p.call(ctx, func(ctx context.Context, l *link) (err error) {
		if c, err = p.greet(ctx, l, digest); err == nil {
			c.begin()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("greet %s: %w", p.host, err)
	}
	p.network.counts.conversed.Add(1)
	return c, nil
}

// Close implements Peer. It returns when the other methods have, and all goroutines of the peer's conversations.
func (p *remote) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.connecting <- struct{}{}
	defer func() { <-p.connecting }()
	p.hangUp()
	return nil
}

// judgement is an error that this side has found, and not gRPC.
type judgement struct{ error }

// enter begins a call, which Close waits for.
func (p *remote) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wg.Add(1)
	}
	return !p.closed
}

// call has f use the connection with the host, and once more on a new one if the old one turns out to be dead. gRPC
// itself never connects again: its pauses between attempts would be time in which a host that is back is not seen.
func (p *remote) call(ctx context.Context, f func(context.Context, *link) error) error {
	if !p.enter() {
		return errClosed
	}
	defer p.wg.Done()
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	old, err := p.try(own, f)
	if old && grpcstatus.Code(err) == codes.Unavailable && own.Err() == nil {
		_, err = p.try(own, f)
	}
	var j judgement
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case p.ctx.Err() != nil:
		return errClosed
	case errors.As(err, &j):
		return j.error
	}
	return callError(err)
}

// try has f use the connection, and reports whether it was there before. One that cannot be used is closed.
func (p *remote) try(ctx context.Context, f func(context.Context, *link) error) (old bool, err error) {
	l, old, err := p.connect(ctx)
	if err != nil {
		return false, judgement{err}
	}
	err = f(ctx, l)
	if grpcstatus.Code(err) == codes.Unavailable {
		p.drop(ctx, l)
	}
	return old, err
}

// drop closes a connection, unless there is another by now.
func (p *remote) drop(ctx context.Context, l *link) {
	select {
	case p.connecting <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.connecting }()
	if p.link == l {
		p.hangUp()
	}
}

// connect returns the connection with the host, and whether it was there before.
func (p *remote) connect(ctx context.Context) (l *link, old bool, err error) {
	select {
	case p.connecting <- struct{}{}:
		defer func() { <-p.connecting }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if p.link != nil && p.link.alive() {
		return p.link, true, nil
	}
	p.hangUp()
	ctx, cancel := context.WithTimeout(ctx, connectLasts)
	defer cancel()
	p.link, err = dial(ctx, p.address, p.host, p.network)
	return p.link, false, err
}

// hangUp closes the connection, if there is one. The caller holds connecting.
func (p *remote) hangUp() {
	if p.link != nil {
		p.link.close()
		p.link = nil
	}
}

func (n *TCP) countUnknown(m message) {
	if hasUnknown(m.ProtoReflect()) {
		n.counts.unknown.Add(1)
	}
}
