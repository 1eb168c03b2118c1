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
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// ServeConfig is the configuration of a worker program.
type ServeConfig struct {
	// Watch watches the device until ctx is done, or returns why it cannot, and carries out
	// orders meanwhile. The worker program uses session.Run and its parts.
	Watch func(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options,
		orders *verbs.FabricOrders, send func(verbs.Batch) error) (status.End, error)
	// Backend creates the backend that a request names. It is called after the
	// handshake and may call into native libraries.
	Backend func(verbs.Request) (verbs.Backend, error)
	// Needs returns the parts of the file system that Backend's libraries use. The
	// process gives up all others, and all capabilities. nil: it keeps everything.
	Needs func() confine.Needs
}

// Serve runs the worker program: process.Serve with this contract. It returns the exit status.
func Serve(c ServeConfig) int {
	p := process.ServeConfig{
		Handshake: contractHandshake(),
		ByHand: programName + " is started by rdma-events, one for each RDMA device; " +
			"it is not to be started by hand",
		Thread: status.WorkerComm,
		Shared: 2,
		Make:   c.service,
	}
	if c.Needs != nil {
		p.Needs = func() (confine.Needs, error) { return c.workerNeeds(), nil }
	}
	return process.Serve(p)
}

func (c ServeConfig) service(in process.Inherited) (register func(grpc.ServiceRegistrar), err error) {
	memory, bell := in.Shared[0], in.Shared[1]
	defer memory.Close()
	led, err := ledger.Open(memory)
	if err != nil {
		return nil, err
	}
	led.SetDoorbell(ledger.OpenDoorbell(bell))
	s := &service{watch: c.Watch, backend: c.Backend, ledger: led, end: in.End}
	return func(r grpc.ServiceRegistrar) { proto.RegisterWorkerServer(r, s) }, nil
}

// workerNeeds returns c.Needs and the files that the worker will read for its request.
func (c ServeConfig) workerNeeds() confine.Needs {
	n := c.Needs()
	n.Read = append(n.Read, OnceReads()...)
	return n
}

// service is the worker's side of the contract.
type service struct {
	proto.UnimplementedWorkerServer
	watch func(context.Context, verbs.Backend, *ledger.Ledger, verbs.Options,
		*verbs.FabricOrders, func(verbs.Batch) error) (status.End, error)
	backend  func(verbs.Request) (verbs.Backend, error)
	ledger   *ledger.Ledger
	orders   verbs.FabricOrders // to the current watch
	end      func(stuck bool)
	watching atomic.Bool
}

// Watch implements proto.WorkerServer. The process exits when Watch returns. Watch therefore
// waits until the host has closed the stream: otherwise the last messages, such as the reason
// for the end, would not arrive. Only a worker that could not close its device exits at once.
func (s *service) Watch(m *proto.WatchRequest, stream grpc.ServerStreamingServer[proto.Batch]) error {
	if !s.watching.CompareAndSwap(false, true) {
		return grpcstatus.Error(codes.FailedPrecondition, "this worker watches already")
	}
	ctx := stream.Context()
	why, err := s.watchDevice(ctx, m, func(b verbs.Batch) error { return sendParts(b, stream.Send) })
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

// watchDevice creates the backend that a request names, and watches the device until ctx is done or the watch fails.
func (s *service) watchDevice(ctx context.Context, m *proto.WatchRequest, send func(verbs.Batch) error) (status.End, error) {
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

// Order implements proto.WorkerServer. Before the watch handles orders, and after its end, the error is verbs.ErrNoFabric.
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
