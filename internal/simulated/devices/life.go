package devices

import (
	"context"

	"rdma_events/internal/device/verbs"
)

// lifetime manages the end of a probe or Fabric, which is closed by its owner or with its device.
type lifetime struct {
	gate   *gate
	done   chan struct{} // closed when it has ended, with result set
	result error
}

func newLifetime() lifetime { return lifetime{gate: newGate(), done: make(chan struct{})} }

// closeOnce shuts the gate and calls destroy. It returns ErrClosed if the gate was shut before.
func (l *lifetime) closeOnce(ctx context.Context, destroy func(context.Context) error) error {
	if !l.gate.shut() {
		return verbs.ErrClosed
	}
	return l.finish(ctx, destroy)
}

// closeFromDevice is like closeOnce, for the device. If a closeOnce is under way, it waits for its result.
func (l *lifetime) closeFromDevice(ctx context.Context, destroy func(context.Context) error) error {
	if l.gate.shut() {
		return l.finish(ctx, destroy)
	}
	select {
	case <-l.done:
		return l.result
	case <-ctx.Done():
		return verbs.ErrStuck
	}
}

func (l *lifetime) finish(ctx context.Context, destroy func(context.Context) error) error {
	defer close(l.done)
	defer l.gate.abandon()
	l.result = destroy(ctx)
	return l.result
}
