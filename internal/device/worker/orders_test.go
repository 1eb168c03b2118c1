package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/status"
)

// served is a worker in this process whose watch has begun, with the host's Orders for it.
type served struct {
	t      *testing.T
	orders *Orders
	server *grpc.Server
	cancel context.CancelFunc // ends the stream, as a host does
	ended  chan error         // receives the result of Stream
}

// serveOrders starts a worker whose orders take carries out.
func serveOrders(t *testing.T, take func(verbs.FabricRequest)) *served {
	t.Helper()
	s := &served{t: t, orders: NewOrders(), server: grpc.NewServer(), ended: make(chan error, 1)}
	proto.RegisterWorkerServer(s.server, &service{
		end: func(bool) {}, backend: func(verbs.Request) (verbs.Backend, error) { return nil, nil },
		watch: func(ctx context.Context, _ verbs.Backend, _ *ledger.Ledger, _ verbs.Options, o *verbs.FabricOrders,
			send sender,
		) (status.End, error) {
			defer o.Handle(take)()
			if err := send(openedBatch()); err != nil {
				return status.End{}, err
			}
			<-ctx.Done()
			return status.End{}, ctx.Err()
		},
	})
	pipe := bufconn.Listen(1 << 20)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, s.server.Serve(pipe)) })
	c, err := grpc.NewClient("passthrough:worker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	begun := make(chan struct{})
	bell, err := ledger.NewDoorbell()
	require.NoError(t, err)
	serving.Go(func() {
		device := verbs.Options{Device: openedBatch().Items[0].Opened.Name}
		a := &attempt{contract: &contract{request: verbs.Request{Options: device}, orders: s.orders}, bell: bell}
		s.ended <- a.Stream(ctx, c, func(message) error {
			close(begun)
			return nil
		})
	})
	<-begun
	t.Cleanup(func() {
		cancel()
		require.NoError(t, c.Close())
		s.server.Stop()
		serving.Wait()
		require.NoError(t, bell.Close())
	})
	return s
}

func TestAnOrderReachesTheWatchAndItsAnswerComesBack(t *testing.T) {
	want := *newFilled[verbs.FabricOrder](t)
	s := serveOrders(t, func(r verbs.FabricRequest) {
		assert.Equal(t, want, r.FabricOrder)
		r.Answer(4711, nil)
	})
	rc, err := s.orders.Order(t.Context(), want)
	require.NoError(t, err)
	require.EqualValues(t, 4711, rc)
}

func TestTheHostTellsTheErrorsOfOrdersApart(t *testing.T) {
	var answer error
	s := serveOrders(t, func(r verbs.FabricRequest) { r.Answer(0, answer) })
	for _, is := range []error{verbs.ErrNoFabric, verbs.ErrNoDevice, verbs.ErrUnsupported, verbs.ErrLimit, verbs.ErrClosed} {
		answer = verbs.NewOpError("ibv_create_qp", "mlx5_0", 1, fmt.Errorf("%w: %w", is, unix.ENOMEM))
		_, err := s.orders.Order(t.Context(), verbs.FabricOrder{})
		require.ErrorIs(t, err, is)
		require.NotErrorIs(t, err, ErrNoWorker)
		require.EqualError(t, err, answer.Error())
	}
	answer = verbs.NewOpError("ibv_modify_qp", "mlx5_0", 1, unix.ETIMEDOUT)
	_, err := s.orders.Order(t.Context(), verbs.FabricOrder{})
	require.EqualError(t, err, "ibv_modify_qp mlx5_0 port 1: connection timed out")
	require.NoError(t, errors.Unwrap(err))
}

func TestWithoutAWorkerThereIsNobodyToGiveAnOrder(t *testing.T) {
	_, err := NewOrders().Order(t.Context(), verbs.FabricOrder{})
	require.ErrorIs(t, err, ErrNoWorker)
}

// startOrder starts an order and waits until the worker has it. It returns the channel that receives the order's error.
func (s *served) startOrder(ctx context.Context, taken <-chan verbs.FabricRequest) (ended chan error, r verbs.FabricRequest) {
	s.t.Helper()
	ended = make(chan error, 1)
	go func() {
		_, err := s.orders.Order(ctx, verbs.FabricOrder{Port: 1})
		ended <- err
	}()
	return ended, <-taken
}

func TestAnOrderUnderWayEndsWithItsWorker(t *testing.T) {
	for name, end := range map[string]func(*served){
		"the worker dies":           func(s *served) { s.server.Stop() },
		"the host closes the watch": func(s *served) { s.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan verbs.FabricRequest, 1)
			s := serveOrders(t, func(r verbs.FabricRequest) { taken <- r })
			ended, _ := s.startOrder(t.Context(), taken)
			end(s)
			require.ErrorIs(t, <-ended, ErrNoWorker)
			require.Error(t, <-s.ended)
			_, err := s.orders.Order(t.Context(), verbs.FabricOrder{})
			require.ErrorIs(t, err, ErrNoWorker)
		})
	}
}

func TestAnOrderEndsWithItsContextAndTheWorkerHears(t *testing.T) {
	taken := make(chan verbs.FabricRequest, 1)
	s := serveOrders(t, func(r verbs.FabricRequest) { taken <- r })
	ctx, cancel := context.WithCancel(t.Context())
	ended, r := s.startOrder(ctx, taken)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrNoWorker)
	<-r.Void
	r.Answer(1, nil) // too late: no sender waits
}

// The worker has the deadline, too, and may notice it first.
func TestAnOrderEndsWithItsDeadline(t *testing.T) {
	s := serveOrders(t, func(r verbs.FabricRequest) { r.Answer(0, context.DeadlineExceeded) })
	_, err := s.orders.Order(t.Context(), verbs.FabricOrder{})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	taken := make(chan verbs.FabricRequest, 1)
	s = serveOrders(t, func(r verbs.FabricRequest) { taken <- r })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	ended, _ := s.startOrder(ctx, taken)
	require.ErrorIs(t, <-ended, context.DeadlineExceeded)
}

func TestOrdersAreGivenConcurrently(t *testing.T) {
	const n = 32
	taken := make(chan verbs.FabricRequest, n)
	s := serveOrders(t, func(r verbs.FabricRequest) { taken <- r })
	var all sync.WaitGroup
	for pair := range n {
		all.Go(func() {
			rc, err := s.orders.Order(t.Context(), verbs.FabricOrder{Pair: pair})
			assert.NoError(t, err)
			assert.EqualValues(t, 100+pair, rc)
		})
	}
	var waiting []verbs.FabricRequest
	for range n {
		waiting = append(waiting, <-taken)
	}
	for _, r := range waiting {
		r.Answer(uint32(100+r.Pair), nil)
	}
	all.Wait()
}

func TestAnOrderToAWorkerThatDoesNotWatchIsRefused(t *testing.T) {
	c, _ := connectClient(t, &service{})
	_, err := c.Order(t.Context(), orderToProto(&verbs.FabricOrder{Port: 1}))
	require.ErrorIs(t, orderError(err), verbs.ErrNoFabric)
}

func TestAnOrderWithHalfAGIDIsRefused(t *testing.T) {
	c, _ := connectClient(t, &service{})
	m := orderToProto(&verbs.FabricOrder{Port: 1, Peer: &verbs.FabricPeer{}})
	m.Peer.Gid = nil
	_, err := c.Order(t.Context(), m)
	require.EqualError(t, orderError(err), "the peer of an order has no GID of 16 bytes")
}
