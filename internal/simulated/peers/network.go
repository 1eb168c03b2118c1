package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/simulated/devices"
)

// New returns the exchange.Network of a world. Every host exists unless the scenario says that it does not.
func New(w *devices.World) exchange.Network { return network{w} }

type network struct{ w *devices.World }

// Peer implements exchange.Network.
func (n network) Peer(h pinglist.Host) (exchange.Peer, error) {
	p := &peer{w: n.w, host: n.w.Peer(h.Name), name: h.Name}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// peer implements exchange.Peer.
type peer struct {
	w      *devices.World
	host   *devices.Peer
	name   string
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // of the goroutines of conversations; Add is called with mu held
}

// Converse implements exchange.Peer.
func (p *peer) Converse(ctx context.Context, digest string) (exchange.Conversation, error) {
	c, err := p.converse(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("greet %s: %w", p.name, err)
	}
	return c, nil
}

func (p *peer) converse(ctx context.Context, digest string) (*conversation, error) {
	if err := p.awaitProcess(ctx, p.ctx); err != nil {
		return nil, err
	}
	switch r := p.host.Refuses(p.w.Now()); r {
	case "":
	case devices.RefusesKey:
		return nil, exchange.ErrKey
	case devices.RefusesHost:
		return nil, exchange.ErrNotListed
	case devices.RefusesVersion:
		return nil, exchange.ErrVersion
	default:
		return nil, errors.New(string(r))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, net.ErrClosed
	}
	c := newConversation(p, digest)
	p.wg.Go(c.watchHost)
	return c, nil
}

// State implements exchange.Peer.
func (p *peer) State(ctx context.Context, _ []uint64) (exchange.State, error) {
	if err := p.awaitProcess(ctx, p.ctx); err != nil {
		return exchange.State{}, fmt.Errorf("ask %s for its state: %w", p.name, err)
	}
	state := exchange.State{LackingKnown: true}
	for _, q := range p.host.Ports(p.w.Now()) {
		state.Ports = append(state.Ports, exchange.PortState{Device: q.Device, Port: q.Port, Epoch: q.Epoch, State: q.State})
	}
	return state, nil
}

// Close implements exchange.Peer. It returns when the goroutines of all conversations have ended.
func (p *peer) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	return nil
}

// awaitProcess waits until the host's process answers. It returns net.ErrClosed if open ends first, and the error of ctx if ctx ends first.
func (p *peer) awaitProcess(ctx, open context.Context) error {
	either, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(open, stop)()
	at, ever := p.host.Answers(p.w.Now())
	if !ever {
		<-either.Done()
	}
	switch {
	case open.Err() != nil:
		return net.ErrClosed
	case ever && ctx.Err() == nil && p.w.Sleep(at, either.Done()):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return net.ErrClosed
}
