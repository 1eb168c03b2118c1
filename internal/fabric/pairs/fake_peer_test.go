package pairs

import (
	"context"
	"errors"
	"slices"
	"sync"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

func (h *fakeHost) announce(c exchange.Change) {
	go func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for t := range h.conversations {
			select {
			case t.changes <- c:
			default:
			}
		}
	}()
}

// fakePeers is the exchange.Network of a host.
type fakePeers struct{ *fakeHost }

func (c fakePeers) Peer(h pinglist.Host) (exchange.Peer, error) {
	return &fakePeer{c.fakeHost, h.Name}, nil
}

// fakePeer is an exchange.Peer.
type fakePeer struct {
	from *fakeHost
	to   string
}

func (l *fakePeer) findPeer() (*fakeHost, error) {
	l.from.fakeNetwork.mu.Lock()
	defer l.from.fakeNetwork.mu.Unlock()
	if err := l.from.refuses[l.to]; err != nil {
		return nil, err
	}
	other := l.from.nodes[l.to]
	if other == nil || l.from.unreachable[l.to] {
		return nil, errNoProcess
	}
	return other, nil
}

var errNoProcess = errors.New("no process answers")

func (l *fakePeer) Converse(context.Context, string) (exchange.Conversation, error) {
	other, err := l.findPeer()
	if err != nil {
		return nil, err
	}
	if _, ok := other.k.Listed(l.from.name); !ok {
		return nil, exchange.ErrNotListed
	}
	t := &fakeConversation{fakePeer: l, other: other, changes: make(chan exchange.Change, 16)}
	if l.from.older {
		t.sessions = other.k.Reconcile(l.from.name, nil)
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	other.conversations[t] = true
	return t, nil
}

func (l *fakePeer) State(ctx context.Context, sessions []uint64) (exchange.State, error) {
	other, err := l.findPeer()
	switch {
	case errors.Is(err, errNoProcess):
		<-ctx.Done()
		return exchange.State{}, err
	case err != nil:
		return exchange.State{}, err
	}
	if _, ok := other.k.Listed(l.from.name); !ok {
		return exchange.State{}, exchange.ErrNotListed
	}
	if err := l.waitRoundTrip(ctx); err != nil {
		return exchange.State{}, err
	}
	ports, lacking := other.k.States(l.from.name, sessions)
	if other.older || l.from.older {
		return exchange.State{Ports: ports}, nil
	}
	return exchange.State{Ports: ports, Lacking: lacking, LackingKnown: true}, nil
}

// waitRoundTrip waits for the duration of a round trip.
func (l *fakePeer) waitRoundTrip(ctx context.Context) error {
	l.from.fakeNetwork.mu.Lock()
	takes := l.from.roundTrip
	l.from.fakeNetwork.mu.Unlock()
	if takes == 0 {
		return nil
	}
	return sleep(ctx, takes)
}

func (l *fakePeer) Close() error { return nil }

// fakeConversation is an exchange.Conversation.
type fakeConversation struct {
	*fakePeer
	other   *fakeHost
	changes chan exchange.Change
	once    sync.Once

	mu       sync.Mutex
	sessions []uint64 // offered or kept, and not left
}

func (t *fakeConversation) Digest() string { return "" }

func (t *fakeConversation) Offer(ctx context.Context, o exchange.Offer) (exchange.Answer, error) {
	if _, err := t.findPeer(); err != nil {
		return exchange.Answer{}, err
	}
	t.from.fakeNetwork.mu.Lock()
	t.from.offers++
	t.from.fakeNetwork.mu.Unlock()
	if t.from.older {
		o.Devices = nil
	}
	a := t.other.k.AnswerOffer(ctx, t.from.name, o)
	if a.Reason == verdict.ReasonNone {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sessions = append(t.sessions, o.Session)
	}
	return a, nil
}

func (t *fakeConversation) Reconcile(_ context.Context, h exchange.Held) (lacking []uint64, err error) {
	if _, err := t.findPeer(); err != nil {
		return nil, err
	}
	if t.other.older || t.from.older {
		return nil, errors.ErrUnsupported
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = t.other.k.Reconcile(t.from.name, &h)
	for _, s := range h.Sessions {
		if !slices.Contains(t.sessions, s) {
			lacking = append(lacking, s)
		}
	}
	return lacking, nil
}

func (t *fakeConversation) Leave(session uint64) error {
	t.mu.Lock()
	t.sessions = slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session })
	t.mu.Unlock()
	t.other.k.Leave(t.from.name, session)
	return nil
}

func (t *fakeConversation) Changes() <-chan exchange.Change { return t.changes }
func (t *fakeConversation) Err() error                      { return errors.New("hung up") }

func (t *fakeConversation) Close() error {
	t.once.Do(func() {
		t.other.mu.Lock()
		delete(t.other.conversations, t)
		t.other.mu.Unlock()
		t.mu.Lock()
		ended := t.sessions
		t.mu.Unlock()
		t.other.k.HandleConversationEnd(t.from.name, ended)
	})
	return nil
}

// disconnect ends all conversations with a host and prevents new ones.
func (n *fakeNetwork) disconnect(name string) {
	n.locked(func() { n.unreachable[name] = true })
	n.nodes[name].dropConversations()
}

// dropConversations ends the conversations with the host.
func (h *fakeHost) dropConversations() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.conversations {
		close(t.changes)
		delete(h.conversations, t)
	}
}

func (n *fakeNetwork) locked(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}
