package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
)

// ErrNoWorker is the error of an order without an answer from a worker: none is running, or it ended before it answered.
var ErrNoWorker = errors.New("no worker is running that takes orders")

// Orders passes orders for the FabricEndpoints of a device to the running worker. It may be used concurrently, and outlives the
// workers.
type Orders struct {
	mu      sync.Mutex
	current *orderWorker // nil: no worker is running
}

// orderWorker is a worker that accepts orders.
type orderWorker struct {
	worker proto.WorkerClient
	alive  context.Context // ends before the worker's watch
}

// NewOrders returns Orders for Config.Orders of one device.
func NewOrders() *Orders { return &Orders{} }

// Order has the worker carry out an order, and returns the number of the RC queue pair if it was an offer. It blocks until the
// order is carried out, which may take as long as the kernel resolves the peer's address (Join) or the device's firmware does not
// answer. The worker carries out the orders for one port one at a time, in the order of their arrival; for concurrent calls that
// order is undefined.
//
// Errors: ErrNoWorker, also if the worker dies meanwhile; the error of ctx, although the order may still be carried out;
// verbs.ErrNoFabric if the port has no FabricEndpoint with that epoch; verbs.ErrNoDevice, verbs.ErrUnsupported, verbs.ErrLimit and
// verbs.ErrClosed; other errors of the device as text.
func (o *Orders) Order(ctx context.Context, order verbs.FabricOrder) (rc uint32, err error) {
	o.mu.Lock()
	w := o.current
	o.mu.Unlock()
	if w == nil {
		return 0, ErrNoWorker
	}
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.alive, cancel)()
	done, err := w.worker.Order(call, orderToProto(&order))
	switch {
	case err == nil:
		return done.GetRc(), nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("order of port %d: %w", order.Port, ctx.Err())
	case w.alive.Err() != nil: // whatever error a worker returns that is being ended
		return 0, fmt.Errorf("%w: order of port %d: %w", ErrNoWorker, order.Port, err)
	case grpcstatus.Code(err) == codes.DeadlineExceeded: // the worker also has the deadline of ctx, and may notice it first
		return 0, fmt.Errorf("order of port %d: %w", order.Port, context.DeadlineExceeded)
	}
	return 0, orderError(err)
}

// attachWorker passes orders to a worker until the returned function is called or alive ends.
func (o *Orders) attachWorker(alive context.Context, worker proto.WorkerClient) (end func()) {
	if o == nil {
		return func() {}
	}
	w := &orderWorker{worker: worker, alive: alive}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current = w
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.current == w {
			o.current = nil
		}
	}
}

// orderCodes maps errors of an order to gRPC codes. gRPC itself returns Unimplemented for a method that a worker lacks, which has
// the same meaning for the host; it returns none of the other codes.
var orderCodes = []struct {
	is   error
	code codes.Code
}{
	{verbs.ErrNoFabric, codes.FailedPrecondition},
	{verbs.ErrNoDevice, codes.NotFound},
	{verbs.ErrUnsupported, codes.Unimplemented},
	{verbs.ErrLimit, codes.ResourceExhausted},
	{verbs.ErrClosed, codes.Aborted},
}

// orderStatus converts the error of an order to a gRPC status.
func orderStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, c := range orderCodes {
		if errors.Is(err, c.is) {
			return grpcstatus.Error(c.code, sanitize.UTF8(err.Error()))
		}
	}
	if s := grpcstatus.FromContextError(err); s.Code() != codes.Unknown {
		return s.Err()
	}
	return grpcstatus.Error(codes.Unknown, sanitize.UTF8(err.Error()))
}

// orderError converts a gRPC status back to the error of an order. It restores the errors that the host acts upon.
func orderError(err error) error {
	s := grpcstatus.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.Canceled: // the connection failed, since the caller's context has not ended
		return fmt.Errorf("%w: %s", ErrNoWorker, s.Message())
	}
	refused := &OrderError{Message: s.Message()}
	for _, c := range orderCodes {
		if c.code == s.Code() {
			refused.Err = c.is
		}
	}
	return refused
}

// OrderError is the error that a worker returned for an order.
type OrderError struct {
	Message string // the worker's message, with the cause
	Err     error  // the matching error of package verbs; nil: no error that the host acts upon
}

// Error returns the message of the worker.
func (e *OrderError) Error() string { return e.Message }

// Unwrap returns the error of package verbs.
func (e *OrderError) Unwrap() error { return e.Err }
