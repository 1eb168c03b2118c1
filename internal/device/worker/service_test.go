package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connectClient is like dialService, but returns a client of the worker.
func connectClient(t *testing.T, svc *service) (proto.WorkerClient, <-chan bool) {
	t.Helper()
	c, ends := dialService(t, svc)
	return proto.NewWorkerClient(c), ends
}

// dialService serves a worker in this process and returns a connection to it. Each call of svc.end sends its argument to the channel.
func dialService(t *testing.T, svc *service) (*grpc.ClientConn, <-chan bool) {
	t.Helper()
	ends := make(chan bool, 1)
	svc.end = func(stuck bool) { ends <- stuck }
	if svc.backend == nil {
		svc.backend = func(verbs.Request) (verbs.Backend, error) { return nil, nil }
	}
	pipe := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	proto.RegisterWorkerServer(server, svc)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, server.Serve(pipe)) })
	c, err := grpc.NewClient("passthrough:worker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		server.Stop()
		serving.Wait()
	})
	return c, ends
}

type sender = func(verbs.Batch) error

func openedBatch() verbs.Batch {
	return verbs.Batch{Items: []verbs.Item{{Opened: &verbs.DeviceAttr{Name: "mlx5_0", Ports: 1}}}}
}

func newWatch(f func(context.Context, verbs.Options, sender) error) func(context.Context, verbs.Backend,
	*ledger.Ledger, verbs.Options, *verbs.FabricOrders, sender) (status.End, error) {
	return func(ctx context.Context, _ verbs.Backend, _ *ledger.Ledger, o verbs.Options, _ *verbs.FabricOrders,
		send sender,
	) (status.End, error) {
		return status.End{Reason: status.ReasonRemoved, Message: "gone"}, f(ctx, o, send)
	}
}

func TestWatcherContextEndsWhenHostClosesStream(t *testing.T) {
	want := verbs.Request{Options: verbs.Options{Device: "mlx5_0", Ports: []int{1, 2}}}
	cause := make(chan error, 1)
	c, ends := connectClient(t, &service{watch: newWatch(func(ctx context.Context, o verbs.Options, send sender) error {
		assert.Equal(t, want.Options, o)
		assert.NoError(t, send(openedBatch()))
		<-ctx.Done()
		cause <- ctx.Err()
		return ctx.Err()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	in, err := c.Watch(ctx, requestToProto(want))
	require.NoError(t, err)
	m, err := in.Recv()
	require.NoError(t, err)
	require.Equal(t, message{batch: openedBatch()}, messageFromProto(m))
	cancel()
	require.ErrorIs(t, <-cause, context.Canceled)
	require.False(t, <-ends)
}

func TestBlockedWatcherIsReleasedWhenHostClosesStream(t *testing.T) {
	full := make(chan error, 1)
	c, ends := connectClient(t, &service{watch: newWatch(func(_ context.Context, _ verbs.Options, send sender) error {
		b := verbs.Batch{Items: make([]verbs.Item, 10_000)}
		for i := range b.Items {
			b.Items[i].Reading = &verbs.Reading{Port: 1}
		}
		for {
			if err := send(b); err != nil {
				full <- err
				return err
			}
		}
	})})
	ctx, cancel := context.WithCancel(t.Context())
	in, err := c.Watch(ctx, requestToProto(verbs.Request{}))
	require.NoError(t, err)
	_, err = in.Recv()
	require.NoError(t, err)
	cancel()
	require.Equal(t, codes.Canceled, grpcstatus.Code(<-full))
	require.False(t, <-ends)
}

func TestWorkerStaysUntilHostHasItsFinalMessage(t *testing.T) {
	c, ends := connectClient(t, &service{watch: newWatch(func(context.Context, verbs.Options, sender) error { return nil })})
	ctx, cancel := context.WithCancel(t.Context())
	in, err := c.Watch(ctx, requestToProto(verbs.Request{}))
	require.NoError(t, err)
	m, err := in.Recv()
	require.NoError(t, err)
	require.Equal(t, message{end: &status.End{Reason: status.ReasonRemoved, Message: "gone"}}, messageFromProto(m))
	require.Empty(t, ends)
	cancel()
	require.False(t, <-ends)
}

func TestAWorkerWhoseLibraryIsStuckExitsAtOnce(t *testing.T) {
	c, ends := connectClient(t, &service{watch: newWatch(func(context.Context, verbs.Options, sender) error {
		return errors.Join(context.Canceled, verbs.ErrStuck)
	})})
	_, err := c.Watch(t.Context(), requestToProto(verbs.Request{}))
	require.NoError(t, err)
	require.True(t, <-ends)
}

func TestAWorkerThatCannotWatchSaysWhy(t *testing.T) {
	old := requestToProto(verbs.Request{})
	old.Version = 99
	for name, row := range map[string]struct {
		request *proto.WatchRequest
		want    string
	}{
		"no backend":             {requestToProto(verbs.Request{Backend: "x"}), `make backend "x": unexpected EOF`},
		"a host of another kind": {old, "unsupported operation: a request of contract 99 to a worker of contract 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := connectClient(t, &service{backend: func(verbs.Request) (verbs.Backend, error) { return nil, io.ErrUnexpectedEOF }})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, err := c.Watch(ctx, row.request)
			require.NoError(t, err)
			m, err := in.Recv()
			require.NoError(t, err)
			require.Equal(t, &status.End{Reason: status.ReasonUnsupported, Message: row.want},
				messageFromProto(m).end)
		})
	}
}

func TestAWorkerServesOneWatch(t *testing.T) {
	c, _ := connectClient(t, &service{watch: newWatch(func(ctx context.Context, _ verbs.Options, send sender) error {
		if err := send(openedBatch()); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, err := c.Watch(ctx, requestToProto(verbs.Request{}))
	require.NoError(t, err)
	_, err = first.Recv()
	require.NoError(t, err)
	second, err := c.Watch(ctx, requestToProto(verbs.Request{}))
	require.NoError(t, err)
	_, err = second.Recv()
	require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
}
