package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/status"
)

// service is the worker's side of the contract.
type service struct {
	proto.UnimplementedWorkerServer
	watch func(context.Context, verbs.Backend, *ledger.Ledger, verbs.Options,
		*verbs.FabricOrders, func(verbs.Batch) error) (status.End, error)
	backend func(verbs.Request) (verbs.Backend, error)
	ledger  *ledger.Ledger
	orders  verbs.FabricOrders // to the watch that is under way
	end     func(stuck bool)
	taken   atomic.Bool
}

// Watch implements proto.WorkerServer. The process ends with it, but not before the host
// has closed the stream: otherwise the messages that were sent last, such as the reason
// of an end, would not arrive. Only a worker that could not close its device ends at
// once.
func (s *service) Watch(m *proto.WatchRequest, stream grpc.ServerStreamingServer[proto.Batch]) error {
	if !s.taken.CompareAndSwap(false, true) {
		return grpcstatus.Error(codes.FailedPrecondition, "this worker watches already")
	}
	ctx := stream.Context()
	why, err := s.run(ctx, m, func(b verbs.Batch) error { return sendParts(b, stream.Send) })
	if errors.Is(err, verbs.ErrStuck) {
		s.end(true)
		return err
	}
	if err != nil {
		why = status.End{Reason: status.ReasonUnsupported, Message: err.Error()}
	}
	if ctx.Err() == nil {
		_ = stream.Send(endToProto(why)) // an error means that no host receives it
	}
	<-ctx.Done()
	s.end(false)
	return ctx.Err()
}

func (s *service) run(ctx context.Context, m *proto.WatchRequest, send func(verbs.Batch) error) (status.End, error) {
	if v := m.GetVersion(); v != contractVersion {
		return status.End{}, fmt.Errorf("%w: a request of contract %d to a worker of contract %d",
			verbs.ErrUnsupported, v, contractVersion)
	}
	r := requestFromProto(m)
	b, err := s.backend(r)
	if err != nil {
		return status.End{}, fmt.Errorf("make backend %q: %w", r.Backend, err)
	}
	return s.watch(ctx, b, s.ledger, r.Options, &s.orders, send)
}

// Order implements proto.WorkerServer. Before the watch takes orders, and after it, the answer is verbs.ErrNoFabric.
func (s *service) Order(ctx context.Context, m *proto.FabricOrder) (*proto.FabricDone, error) {
	o, ok := orderFromProto(m)
	if !ok {
		return nil, grpcstatus.Error(codes.InvalidArgument, "the peer of an order has no GID of 16 bytes")
	}
	rc, err := s.orders.Do(ctx, o)
	if err != nil {
		return nil, orderStatus(err)
	}
	return &proto.FabricDone{Rc: rc}, nil
}
