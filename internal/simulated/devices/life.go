package devices

import (
	"context"

	"rdma_events/internal/device/verbs"
)

// life is the end of what is closed by its owner or with its device: a probe or a Fabric.
type life struct {
	gate   *gate
	done   chan struct{} // closed when it has ended, with result set
	result error
}

func newLife() life { return life{gate: newGate(), done: make(chan struct{})} }

// closeOnce shuts the gate and destroys. It returns ErrClosed if that was done before.
func (l *life) closeOnce(ctx context.Context, destroy func(context.Context) error) error {
	if !l.gate.shut() {
		return verbs.ErrClosed
	}
	return l.end(ctx, destroy)
}

// closeBeside is closeOnce of the device. If a closeOnce came first, it waits for that one.
func (l *life) closeBeside(ctx context.Context, destroy func(context.Context) error) error {
	if l.gate.shut() {
		return l.end(ctx, destroy)
	}
	select {
	case <-l.done:
		return l.result
	case <-ctx.Done():
		return verbs.ErrStuck
	}
}

func (l *life) end(ctx context.Context, destroy func(context.Context) error) error {
	defer close(l.done)
	defer l.gate.abandon()
	l.result = destroy(ctx)
	return l.result
}
