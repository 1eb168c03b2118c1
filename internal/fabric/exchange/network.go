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
	Host        string // this host's name in the list
	Credentials *Credentials
	Port        int // default port for addresses without one
	// Dial connects to an address of the form host:port. If it is nil, TCP is used.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// TCP is the Network of real hosts. Its methods may be called concurrently.
type TCP struct {
	config   NetworkConfig
	limits   limits
	versions versions
	counts   counters
}

// New returns a TCP. It connects to no host.
func New(c NetworkConfig) *TCP {
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	return &TCP{config: c, limits: defaultLimits(), versions: ownVersions}
}

// Counts returns the counts of the conversations with all peers. Only Conversed, Malformed and Unknown are used.
func (n *TCP) Counts() Counts { return n.counts.load() }

// Peer implements Network.
func (n *TCP) Peer(h pinglist.Host) (Peer, error) {
	if h.Name == "" || h.Address == "" {
		return nil, errors.New("reach a host: it has no name or no address")
	}
	p := &tcpPeer{
		network: n, host: h.Name, address: addressOf(h.Address, n.config.Port), linkLock: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return p, nil
}

// addressOf adds a port to an address that has none.
func addressOf(address string, port int) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}

// tcpPeer is a host that is reached over TCP. It implements Peer.
type tcpPeer struct {
	network *TCP
	host    string
	address string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // of calls and of the goroutines of conversations; Add is called with mu held

	linkLock chan struct{} // lock of link: holds a token while locked
	link     *link         // nil: not connected
}

// These timeouts apply in addition to ctx.
const (
	connectTimeout = 10 * time.Second
	closeTimeout   = time.Second // until the host has read the last messages
)

// errClosed is the error of calls and conversations that this side has closed.
var errClosed = net.ErrClosed

// State implements Peer.
func (p *tcpPeer) State(ctx context.Context, sessions []uint64) (State, error) {
	var state State
	request := &proto.StateRequest{Host: sanitize.UTF8(p.network.config.Host), Sessions: sessions[:min(len(sessions), maxSessions)]}
	err := p.callWithRetry(ctx, func(ctx context.Context, l *link) error {
		m, err := proto.NewHelloClient(l.conn).State(ctx, request)
		if err != nil {
			return err
		}
		p.network.countUnknown(m)
		if state, err = stateFromProto(m); err != nil {
			p.network.counts.malformed.Add(1)
			return localError{err}
		}
		return nil
	})
	if err != nil {
		return State{}, fmt.Errorf("ask %s for its state: %w", p.host, err)
	}
	return state, nil
}

// Converse implements Peer.
func (p *tcpPeer) Converse(ctx context.Context, digest string) (Conversation, error) {
	var c *conversation
	err := p.callWithRetry(ctx, func(ctx context.Context, l *link) (err error) {
		if c, err = p.openConversation(ctx, l, digest); err == nil {
			c.start()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("greet %s: %w", p.host, err)
	}
	p.network.counts.conversed.Add(1)
	return c, nil
}

// Close implements Peer. It returns when the other methods have returned and all goroutines of the peer's conversations have ended.
func (p *tcpPeer) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.linkLock <- struct{}{}
	defer func() { <-p.linkLock }()
	p.closeLink()
	return nil
}

// localError is an error that this package has detected, in contrast to errors of gRPC.
type localError struct{ error }

// beginCall registers a call for which Close waits. It returns false after Close.
func (p *tcpPeer) beginCall() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wg.Add(1)
	}
	return !p.closed
}

// callWithRetry calls f with the connection to the host. If an existing connection turns out to be dead, it calls f again with a new one.
// gRPC itself never reconnects: its delays between attempts would delay the detection of a host that is back.
func (p *tcpPeer) callWithRetry(ctx context.Context, f func(context.Context, *link) error) error {
	if !p.beginCall() {
		return errClosed
	}
	defer p.wg.Done()
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	old, err := p.callOnce(own, f)
	if old && grpcstatus.Code(err) == codes.Unavailable && own.Err() == nil {
		_, err = p.callOnce(own, f)
	}
	var j localError
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

// callOnce calls f with the connection, and reports whether the connection existed before. It closes a connection that cannot be used.
func (p *tcpPeer) callOnce(ctx context.Context, f func(context.Context, *link) error) (old bool, err error) {
	l, old, err := p.ensureLink(ctx)
	if err != nil {
		return false, localError{err}
	}
	err = f(ctx, l)
	if grpcstatus.Code(err) == codes.Unavailable {
		p.discardLink(ctx, l)
	}
	return old, err
}

// discardLink closes l unless another connection has replaced it.
func (p *tcpPeer) discardLink(ctx context.Context, l *link) {
	select {
	case p.linkLock <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.linkLock }()
	if p.link == l {
		p.closeLink()
	}
}

// ensureLink returns the connection to the host, and reports whether it existed before.
func (p *tcpPeer) ensureLink(ctx context.Context) (l *link, old bool, err error) {
	select {
	case p.linkLock <- struct{}{}:
		defer func() { <-p.linkLock }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if p.link != nil && p.link.isReady() {
		return p.link, true, nil
	}
	p.closeLink()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	p.link, err = dialHost(ctx, p.address, p.host, p.network)
	return p.link, false, err
}

// closeLink closes the connection if there is one. The caller holds linkLock.
func (p *tcpPeer) closeLink() {
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
