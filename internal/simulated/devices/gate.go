package devices

import (
	"context"
	"sync"
)

// gate lets calls in until it is shut. The caller that shuts it can wait for
// the calls inside.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool

	closing chan struct{} // closed by shut: calls that wait for events leave
	idle    chan struct{} // closed when the gate is shut and no call is inside
	lost    chan struct{} // closed by abandon: calls that hang leave
}

func newGate() *gate {
	return &gate{
		closing: make(chan struct{}),
		idle:    make(chan struct{}),
		lost:    make(chan struct{}),
	}
}

// enter reports whether the gate is open. If it is, the caller must call leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.isShut && g.inside == 0 {
		close(g.idle)
	}
}

// shut reports whether this call shut the gate. If it did, the caller must call
// abandon.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.isShut = true
	close(g.closing)
	if g.inside == 0 {
		close(g.idle)
	}
	return true
}

// wait reports whether all calls have left before ctx is done.
func (g *gate) wait(ctx context.Context) bool {
	select {
	case <-g.idle:
		return true
	case <-ctx.Done():
	}
	select {
	case <-g.idle: // both were ready
		return true
	default:
		return false
	}
}

// abandon frees the calls that hang inside. A thread in a real library would
// stay there for ever; the simulator gives its goroutine back.
func (g *gate) abandon() { close(g.lost) }

func (g *gate) shutting() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}
