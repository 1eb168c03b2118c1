package devices

import (
	"context"
	"sync"
)

// gate counts the calls that are inside, and refuses calls after it was shut. The
// caller that shuts it can wait until the calls inside have left.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool

	closing   chan struct{} // closed by shut, after which calls that wait for events leave
	idle      chan struct{} // closed when the gate is shut and no call is inside
	abandoned chan struct{} // closed by abandon, after which calls that hang leave
}

func newGate() *gate {
	return &gate{
		closing:   make(chan struct{}),
		idle:      make(chan struct{}),
		abandoned: make(chan struct{}),
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

// shut shuts the gate. It returns true if this call shut it; the caller must then call
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

// wait waits until all calls have left. It returns false if ctx is done first.
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

// abandon ends the calls that hang inside. A thread in a real library would hang
// forever; the simulator releases the goroutine.
func (g *gate) abandon() { close(g.abandoned) }

func (g *gate) isShutting() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}
