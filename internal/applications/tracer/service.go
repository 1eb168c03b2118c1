package tracer

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/sys/status"
)

// service implements the tracer's side of the contract.
type service struct {
	proto.UnimplementedTracerServer
	open    func(trace.Request) (trace.Source, error)
	refused *status.End // the reason, known since the first start, why the tracer cannot trace; nil: it can
	end     func(stuck bool)
	started atomic.Bool
}

// stream is the stream of a Trace call.
type stream = grpc.BidiStreamingServer[proto.Request, proto.Message]

// Trace implements proto.TracerServer. The process ends after it. Trace waits until the host has ended the call, because otherwise the last
// messages would not arrive.
func (s *service) Trace(to stream) error {
	if !s.started.CompareAndSwap(false, true) {
		return grpcstatus.Error(codes.FailedPrecondition, "this tracer traces already")
	}
	m, err := to.Recv()
	if err != nil {
		return err
	}
	var host sync.WaitGroup
	asked := make(chan struct{})
	host.Go(func() {
		defer close(asked)
		_, _ = to.Recv() // returns when the host has closed its side or has ended
	})
	ctx := to.Context()
	why := s.runSource(ctx, m, to, asked)
	if ctx.Err() == nil {
		_ = to.Send(endToProto(why)) // an error means that no host receives it
	}
	<-ctx.Done()
	host.Wait()
	s.end(false)
	return ctx.Err()
}

// runSource traces until asked is closed or the source ends. It returns the reason of the end.
func (s *service) runSource(ctx context.Context, m *proto.Request, to stream, asked <-chan struct{}) status.End {
	if v := m.GetVersion(); v != contractVersion {
		return EndOf(fmt.Errorf("%w: a request of contract %d to a tracer of contract %d", trace.ErrUnsupported, v, contractVersion))
	}
	if s.refused != nil {
		return *s.refused
	}
	r := requestFromProto(m)
	source, err := s.open(r)
	if err != nil {
		return EndOf(err)
	}
	var closing sync.WaitGroup
	over := make(chan struct{})
	closing.Go(func() {
		select {
		case <-asked:
		case <-over:
		}
		if err := source.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the source:", err)
		}
	})
	err = sendUpdates(ctx, source, to)
	close(over)
	closing.Wait()
	return EndOf(err)
}

// sendUpdates sends the data of a source until it ends, and returns its error.
func sendUpdates(ctx context.Context, source trace.Source, to stream) error {
	if err := to.Send(attachedToProto(source.Attached())); err != nil {
		return err
	}
	for {
		s, err := source.Next(ctx)
		if err != nil {
			return err
		}
		if err := to.Send(updateToProto(s)); err != nil {
			return err
		}
	}
}
