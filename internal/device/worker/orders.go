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

// ErrNoWorker is the error of an order that no worker has carried out: none runs, or it ended before it answered.
var ErrNoWorker = errors.New("no worker is running that takes orders")

// Orders gives orders for the Fabrics of a device to the worker that runs. It may be used concurrently, and outlives the workers.
type Orders struct {
	mu sync.Mutex
	at *post // nil: no worker runs
}

// post is one worker that takes orders.
type post struct {
	worker proto.WorkerClient
	alive  context.Context // ends before the worker's watch
}

// NewOrders returns Orders for Config.Orders of one device.
func NewOrders() *Orders { return &Orders{} }

// Order has the worker carry out an order, and returns the number of the RC queue pair if it was an offer. It blocks as long as
// that takes: as long as the kernel seeks the peer's address (Join), or as the device's firmware does not answer. Orders for
// one port are carried out one at a time, in the order in which they reach the worker, which for concurrent calls may be any.
//
// Errors: ErrNoWorker, also when the worker dies meanwhile; the error of ctx, after which the order may be carried out all the
// same; verbs.ErrNoFabric if the port has no Fabric of that epoch; verbs.ErrNoDevice, verbs.ErrUnsupported, verbs.ErrLimit and
// verbs.ErrClosed; others of the device as text.
func (o *Orders) Order(ctx context.Context, order verbs.FabricOrder) (rc uint32, err error) {
	o.mu.Lock()
	at := o.at
	o.mu.Unlock()
	if at == nil {
		return 0, ErrNoWorker
	}
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(at.alive, cancel)()
	done, err := at.worker.Order(call, orderToProto(&order))
	switch {
	case err == nil:
		return done.GetRc(), nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("order of port %d: %w", order.Port, ctx.Err())
	case at.alive.Err() != nil: // whatever a worker says that is being ended
		return 0, fmt.Errorf("%w: order of port %d: %w", ErrNoWorker, order.Port, err)
	case grpcstatus.Code(err) == codes.DeadlineExceeded: // the worker has the deadline of ctx too, and may be the first to notice
		return 0, fmt.Errorf("order of port %d: %w", order.Port, context.DeadlineExceeded)
	}
	return 0, orderError(err)
}

// giveTo has orders given to a worker until the returned function is called, or alive ends.
func (o *Orders) giveTo(alive context.Context, worker proto.WorkerClient) (end func()) {
	if o == nil {
		return func() {}
	}
	at := &post{worker: worker, alive: alive}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = at
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.at == at {
			o.at = nil
		}
	}
}

// orderCodes are the codes that stand for errors of an order. gRPC itself has Unimplemented for a method that a worker does
// not have, which is the same to the host, and none of the others.
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

// orderStatus returns the error of an order as the host gets it.
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

// orderError returns the error that orderStatus was given, as far as the host acts upon it.
func orderError(err error) error {
	s := grpcstatus.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.Canceled: // of the connection, since the caller's context has not ended
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

// OrderError is the error of an order that a worker took.
type OrderError struct {
	Message string // of the worker, with the cause
	Err     error  // the error of package verbs that it is; nil: it is none that a host acts upon
}

// Error returns the message of the worker.
func (e *OrderError) Error() string { return e.Message }

// Unwrap returns the error of package verbs.
func (e *OrderError) Unwrap() error { return e.Err }
