package keeper

import (
	"context"
	"errors"
	"sync"

	"rdma_events/internal/fabric"
	"rdma_events/internal/hello"
)

func (h *node) announce(c hello.Change) {
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

// caller is the hello.Network of a node.
type caller struct{ *node }

func (c caller) Peer(h fabric.Host) (hello.Peer, error) { return &line{c.node, h.Name}, nil }

// line is a hello.Peer.
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
		return nil, errors.New("no process answers")
	}
	return other, nil
}

func (l *line) Converse(context.Context, string) (hello.Conversation, error) {
	other, err := l.reach()
	if err != nil {
		return nil, err
	}
	if _, ok := other.k.Listed(l.from.name); !ok {
		return nil, hello.ErrNotListed
	}
	t := &talk{line: l, other: other, changes: make(chan hello.Change, 16)}
	other.mu.Lock()
	defer other.mu.Unlock()
	other.talks[t] = true
	return t, nil
}

func (l *line) State(ctx context.Context) ([]hello.PortState, error) {
	other, err := l.reach()
	if err != nil {
		<-ctx.Done()
		return nil, err
	}
	if _, ok := other.k.Listed(l.from.name); !ok {
		return nil, hello.ErrNotListed
	}
	return other.k.States(), nil
}

func (l *line) Close() error { return nil }

// talk is a hello.Conversation.
type talk struct {
	*line
	other   *node
	changes chan hello.Change
	once    sync.Once
}

func (t *talk) Digest() string { return "" }

func (t *talk) Offer(ctx context.Context, o hello.Offer) (hello.Answer, error) {
	if _, err := t.reach(); err != nil {
		return hello.Answer{}, err
	}
	t.from.net.mu.Lock()
	t.from.meetings++
	t.from.net.mu.Unlock()
	return t.other.k.Meet(ctx, t.from.name, o), nil
}

func (t *talk) Leave(session uint64) error {
	t.other.k.Leave(t.from.name, session)
	return nil
}

func (t *talk) Changes() <-chan hello.Change { return t.changes }
func (t *talk) Err() error                   { return errors.New("hung up") }

func (t *talk) Close() error {
	t.once.Do(func() {
		t.other.mu.Lock()
		delete(t.other.talks, t)
		t.other.mu.Unlock()
		t.other.k.Ended(t.from.name, nil)
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
