package endpoint

import (
	"context"
	"fmt"

	"rdma_events/internal/device/verbs"
)

// maxOrders is how many orders may wait for a port: an offer, a join and their end for each pair, and some more.
const maxOrders = 4 * verbs.MaxFabricPairs

// take queues an order, or refuses it.
func (f *fabric) take(r verbs.FabricRequest) {
	if err := f.refuses(&r.FabricOrder); err != nil {
		r.Answer(0, err)
		return
	}
	f.mu.Lock() // so that detach finds what is queued
	defer f.mu.Unlock()
	if !f.has(r.Epoch) {
		r.Answer(0, verbs.ErrNoFabric)
		return
	}
	select {
	case f.queue <- r:
	default:
		r.Answer(0, fmt.Errorf("%w: %d orders wait for port %d", verbs.ErrLimit, maxOrders, r.Port))
	}
}

// has reports whether there is a Fabric of an epoch. f.mu is held.
func (f *fabric) has(epoch uint64) bool { return f.open != nil && f.epoch == epoch }

// refuses returns why an order cannot be carried out by any Fabric of the port.
func (f *fabric) refuses(o *verbs.FabricOrder) error {
	switch {
	case o.Pair < 0 || o.Pair >= verbs.MaxFabricPairs:
		return fmt.Errorf("order of port %d: no pair %d, the last one is %d", o.Port, o.Pair, verbs.MaxFabricPairs-1)
	case o.Offer || o.Peer == nil:
		return nil
	case len(o.Peer.UD) < 1 || len(o.Peer.UD) > f.s.Options().Fabric.Paths:
		return fmt.Errorf("order of port %d: a pair of %d paths, the port has %d", o.Port, len(o.Peer.UD), f.s.Options().Fabric.Paths)
	}
	return nil
}

// carryOut carries out the orders of the port, one at a time.
func (f *fabric) carryOut(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil // no sender waits for the answers to the others (FabricOrders.Take)
		case r := <-f.queue:
			f.carryOutOne(ctx, r)
		}
	}
}

// carryOutOne carries out one order, unless its sender has given up.
func (f *fabric) carryOutOne(ctx context.Context, r verbs.FabricRequest) {
	for !f.s.Answers() && f.stillHas(r.Epoch) && wait(ctx, verbs.AnswerLimit) {
	}
	select {
	case <-r.Void:
		return
	case <-ctx.Done():
		return
	default:
	}
	open, end := f.begin(r.Epoch)
	if open == nil {
		r.Answer(0, verbs.ErrNoFabric)
		return
	}
	defer end()
	var rc uint32
	var err error
	switch {
	case r.Offer:
		rc, err = open.Offer(r.Pair, r.Role)
	case r.Peer != nil:
		err = open.Join(r.Pair, r.Peer)
	default:
		err = open.Leave(r.Pair)
	}
	r.Answer(rc, err)
}

func (f *fabric) stillHas(epoch uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.has(epoch)
}

// begin begins an order for the Fabric of an epoch, nil if that is no more. The Fabric is not closed before end is called.
func (f *fabric) begin(epoch uint64) (open verbs.Fabric, end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.has(epoch) {
		return nil, nil
	}
	order := make(chan struct{})
	f.order = order
	return f.open, func() { close(order) }
}

// detach takes the Fabric away from orders, and refuses those that wait. order is closed when the one that is under way has
// ended; it is nil if there never was one.
func (f *fabric) detach() (open verbs.Fabric, order <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	open, order = f.open, f.order
	f.open, f.order = nil, nil
	for {
		select {
		case r := <-f.queue:
			r.Answer(0, verbs.ErrNoFabric)
		default:
			return open, order
		}
	}
}
