package verbs

import (
	"context"
	"sync"
)

// FabricOrders passes orders to their handler: a session, while its device is open. The zero value has no handler. All methods
// may be called concurrently.
type FabricOrders struct {
	mu      sync.Mutex
	handle  func(FabricRequest) // nil: no handler
	stopped chan struct{}       // closed when handle is no longer called
}

// FabricRequest is an order whose sender waits for the answer.
type FabricRequest struct {
	FabricOrder
	Void   <-chan struct{}            // closed when the sender no longer waits: skip the order unless it has begun or IsLeave
	Answer func(rc uint32, err error) // must be called once; it does not block
}

// Handle passes orders to handle, one at a time, until stop is called. handle must not block. stop ends the wait for every order
// without an answer with ErrNoFabric. There may be one handler at a time.
func (o *FabricOrders) Handle(handle func(FabricRequest)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stopped := make(chan struct{})
	o.handle, o.stopped = handle, stopped
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.handle = nil
		close(stopped)
	})
}

// Do has an order carried out and waits for the answer. It returns the number of the RC queue pair if the order was an offer.
// Errors: those of FabricEndpoint, ErrNoFabric also if there is no handler, and that of ctx. If ctx ends, the order may still
// be carried out.
func (o *FabricOrders) Do(ctx context.Context, order FabricOrder) (rc uint32, err error) {
	type answer struct {
		rc  uint32
		err error
	}
	answered := make(chan answer, 1)
	stopped, ok := o.passToHandler(FabricRequest{
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
	case <-stopped:
		return 0, ErrNoFabric
	}
}

// passToHandler passes a request to the handler, and returns the channel that is closed when the handler stops. ok is false if
// there is no handler.
func (o *FabricOrders) passToHandler(r FabricRequest) (stopped <-chan struct{}, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handle == nil {
		return nil, false
	}
	o.handle(r)
	return o.stopped, true
}
