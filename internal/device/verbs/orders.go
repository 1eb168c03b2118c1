package verbs

import (
	"context"
	"sync"
)

// FabricOrders hands orders to whoever carries them out: a session, while its device is open. With the zero value there is none.
// All methods may be called concurrently.
type FabricOrders struct {
	mu   sync.Mutex
	take func(FabricRequest) // nil: none carries out orders
	gone chan struct{}       // closed when take is no longer called
}

// FabricRequest is an order whose sender waits for the answer.
type FabricRequest struct {
	FabricOrder
	Void   <-chan struct{}            // closed when the sender waits no longer: an order that has not begun is to be left out then
	Answer func(rc uint32, err error) // to be called once; it does not block
}

// Take has orders passed to take, one at a time, until stop is called. take must not block. After stop no sender waits for what
// is not answered: that is ErrNoFabric. Only one may take orders at a time.
func (o *FabricOrders) Take(take func(FabricRequest)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gone := make(chan struct{})
	o.take, o.gone = take, gone
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.take = nil
		close(gone)
	})
}

// Do has an order carried out, and returns the number of the RC queue pair if it was an offer. It blocks as long as that takes.
// Errors: those of Fabric, ErrNoFabric also if none carries out orders, and that of ctx. An order whose ctx ends may be
// carried out all the same.
func (o *FabricOrders) Do(ctx context.Context, order FabricOrder) (rc uint32, err error) {
	type answer struct {
		rc  uint32
		err error
	}
	answered := make(chan answer, 1)
	gone, ok := o.pass(FabricRequest{
		FabricOrder: order, Void: ctx.Done(),
		Answer: func(rc uint32, err error) { answered <- answer{rc, err} },
	})
	if !ok {
		return 0, ErrNoFabric
	}
	select {
	case a := <-answered:
		return a.rc, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-gone:
		return 0, ErrNoFabric
	}
}

// pass reports whether a request was taken, and returns what is closed when no more are.
func (o *FabricOrders) pass(r FabricRequest) (gone <-chan struct{}, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.take == nil {
		return nil, false
	}
	o.take(r)
	return o.gone, true
}
