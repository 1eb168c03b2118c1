package endpoint

import (
	"context"
	"fmt"

	"rdma_events/internal/device/verbs"
)

// maxQueuedOrders is the maximum number of orders that wait for a port: an offer, a join and a leave for each pair, and a reserve.
const maxQueuedOrders = 4 * verbs.MaxFabricPairs

// queueOrder queues an order or refuses it. An order whose sender has given up is not queued: a later order for the pair may already be.
func (f *portFabric) queueOrder(r verbs.FabricRequest) {
	if err := f.checkOrder(&r.FabricOrder); err != nil {
		r.Answer(0, err)
		return
	}
	if isVoid(&r) {
		return
	}
	f.mu.Lock() // so that detach finds all queued orders
	defer f.mu.Unlock()
	if !f.hasEpochLocked(r.Epoch) {
		r.Answer(0, verbs.ErrNoFabric)
		return
	}
	select {
	case f.orders <- r:
	default:
		r.Answer(0, fmt.Errorf("%w: %d orders wait for port %d", verbs.ErrLimit, maxQueuedOrders, r.Port))
	}
}

// hasEpochLocked reports whether the Fabric of an epoch is open. The caller holds f.mu.
func (f *portFabric) hasEpochLocked(epoch uint64) bool { return f.open != nil && f.epoch == epoch }

// checkOrder returns an error if no Fabric of the port can carry out the order.
func (f *portFabric) checkOrder(o *verbs.FabricOrder) error {
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

// carryOutOrders carries out the orders for the port, one at a time.
func (f *portFabric) carryOutOrders(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil // no sender waits for the answers to queued orders any more (FabricOrders.Handle)
		case r := <-f.orders:
			f.carryOutOrder(ctx, r)
		}
	}
}

// isVoid reports whether the sender of an order has given up.
func isVoid(r *verbs.FabricRequest) bool {
	select {
	case <-r.Void:
		return true
	default:
		return false
	}
}

// carryOutOrder carries out one order, unless its sender has given up. It always ends a pair that is to end: the sender does not repeat
// the order, and the pair would send probes to a host that no longer expects them.
func (f *portFabric) carryOutOrder(ctx context.Context, r verbs.FabricRequest) {
	for !f.s.Answers() && f.hasEpoch(r.Epoch) && sleep(ctx, verbs.AnswerLimit) {
	}
	if ctx.Err() != nil || !r.IsLeave() && isVoid(&r) {
		return
	}
	open, end := f.beginOrder(r.Epoch)
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

func (f *portFabric) hasEpoch(epoch uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasEpochLocked(epoch)
}

// beginOrder begins an order for the Fabric of an epoch. It returns nil if that Fabric no longer exists. The Fabric is not closed before
// end is called.
func (f *portFabric) beginOrder(epoch uint64) (open verbs.FabricEndpoint, end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasEpochLocked(epoch) {
		return nil, nil
	}
	order := make(chan struct{})
	f.lastOrder = order
	return f.open, func() { close(order) }
}

// detach makes the Fabric unavailable to orders and refuses all queued orders. The channel order is closed when the order that is under way
// has ended; it is nil if there was no order.
func (f *portFabric) detach() (open verbs.FabricEndpoint, order <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	open, order = f.open, f.lastOrder
	f.open, f.lastOrder = nil, nil
	for {
		select {
		case r := <-f.orders:
			r.Answer(0, verbs.ErrNoFabric)
		default:
			return open, order
		}
	}
}
