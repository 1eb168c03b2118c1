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

func (h *node) announce(c exchange.Change) {
	go func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for t := range h.talks {
			select {
			case t.changes <- c:
			default:
			}
		}
	}()
}

// caller is the exchange.Network of a node.
type caller struct{ *node }

func (c caller) Peer(h pinglist.Host) (exchange.Peer, error) { return &line{c.node, h.Name}, nil }

// line is a exchange.Peer.
type line struct {
	from *node
	to   string
}

func (l *line) reach() (*node, error) {
	l.from.net.mu.Lock()
	defer l.from.net.mu.Unlock()
	if err := l.from.refuses[l.to]; err != nil {
		return nil, err
	}
	other := l.from.nodes[l.to]
	if other == nil || l.from.hungUp[l.to] {
		return nil, errNoProcess
	}
	return other, nil
}

var errNoProcess = errors.New("no process answers")

func (l *line) Converse(context.Context, string) (exchange.Conversation, error) {
	other, err := l.reach()
	if err != nil {
		return nil, err
	}
	if _, ok := other.k.Listed(l.from.name); !ok {
		return nil, exchange.ErrNotListed
	}
	t := &talk{line: l, other: other, changes: make(chan exchange.Change, 16)}
	if l.from.older {
		t.sessions = other.k.Reconcile(l.from.name, nil)
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	other.talks[t] = true
	return t, nil
}

func (l *line) State(ctx context.Context, sessions []uint64) (exchange.State, error) {
	other, err := l.reach()
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
	if err := l.roundTrip(ctx); err != nil {
		return exchange.State{}, err
	}
	ports, lacking := other.k.States(l.from.name, sessions)
	if other.older || l.from.older {
		return exchange.State{Ports: ports}, nil
	}
	return exchange.State{Ports: ports, Lacking: lacking, Knows: true}, nil
}

// roundTrip lets the time of a round trip pass.
func (l *line) roundTrip(ctx context.Context) error {
	l.from.net.mu.Lock()
	takes := l.from.roundTrip
	l.from.net.mu.Unlock()
	if takes == 0 {
		return nil
	}
	return sleep(ctx, takes)
}

func (l *line) Close() error { return nil }

// talk is a exchange.Conversation.
type talk struct {
	*line
	other   *node
	changes chan exchange.Change
	once    sync.Once

	sessions []uint64 // met or kept and not left; of the goroutine that converses
}

func (t *talk) Digest() string { return "" }

func (t *talk) Offer(ctx context.Context, o exchange.Offer) (exchange.Answer, error) {
	if _, err := t.reach(); err != nil {
		return exchange.Answer{}, err
	}
	t.from.net.mu.Lock()
	t.from.meetings++
	t.from.net.mu.Unlock()
	if t.from.older {
		o.Devices = nil
	}
	a := t.other.k.Meet(ctx, t.from.name, o)
	if a.Reason == verdict.ReasonNone {
		t.sessions = append(t.sessions, o.Session)
	}
	return a, nil
}

func (t *talk) Reconcile(_ context.Context, h exchange.Held) (lacking []uint64, err error) {
	if _, err := t.reach(); err != nil {
		return nil, err
	}
	if t.other.older || t.from.older {
		return nil, errors.ErrUnsupported
	}
	t.sessions = t.other.k.Reconcile(t.from.name, &h)
	for _, s := range h.Sessions {
		if !slices.Contains(t.sessions, s) {
			lacking = append(lacking, s)
		}
	}
	return lacking, nil
}

func (t *talk) Leave(session uint64) error {
	t.sessions = slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session })
	t.other.k.Leave(t.from.name, session)
	return nil
}

func (t *talk) Changes() <-chan exchange.Change { return t.changes }
func (t *talk) Err() error                      { return errors.New("hung up") }

func (t *talk) Close() error {
	t.once.Do(func() {
		t.other.mu.Lock()
		delete(t.other.talks, t)
		t.other.mu.Unlock()
		t.other.k.Ended(t.from.name, t.sessions)
	})
	return nil
}

// hangUp ends the conversations with a host, of which none can be opened again.
func (n *net) hangUp(name string) {
	n.do(func() { n.hungUp[name] = true })
	n.nodes[name].drop()
}

// drop ends the conversations with the host.
func (h *node) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.talks {
		close(t.changes)
		delete(h.talks, t)
	}
}

func (n *net) do(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}
