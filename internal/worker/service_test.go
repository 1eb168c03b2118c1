package worker

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
	"rdma_events/internal/worker/proto"
)

// connected serves svc in this process and returns a client of it. What exit
// is called with comes out of the channel.
func connected(t *testing.T, svc *service) (proto.WorkerClient, <-chan int) {
	t.Helper()
	exits := make(chan int, 1)
	svc.exit = func(status int) { exits <- status }
	if svc.backend == nil {
		svc.backend = func(verbs.Request) (verbs.Backend, error) { return nil, nil }
	}
	c, s := plugin.TestPluginGRPCConn(t, false, plugin.PluginSet{pluginName: &border{service: svc}})
	t.Cleanup(func() {
		require.NoError(t, c.Close()) // stops the server too
		<-s.DoneCh
	})
	w, err := c.Dispense(pluginName)
	require.NoError(t, err)
	return w.(proto.WorkerClient), exits
}

func watcher(f func(context.Context, verbs.Options, sender) error) func(context.Context, verbs.Backend,
	*ledger.Ledger, verbs.Options, sender) error {
	return func(ctx context.Context, _ verbs.Backend, _ *ledger.Ledger, o verbs.Options, send sender) error {
		return f(ctx, o, send)
	}
}

func TestTheWatcherIsToldWhenTheHostLetsGo(t *testing.T) {
	want := verbs.Request{Options: verbs.Options{Device: "mlx5_0", Ports: []int{1, 2}}}
	cause := make(chan error, 1)
	c, exits := connected(t, &service{watch: watcher(func(ctx context.Context, o verbs.Options, send sender) error {
		assert.Equal(t, want.Options, o)
		assert.NoError(t, send(opened()))
		<-ctx.Done()
		cause <- ctx.Err()
		return ctx.Err()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	in, err := c.Watch(ctx, requestToProto(want))
	require.NoError(t, err)
	m, err := in.Recv()
	require.NoError(t, err)
	require.Equal(t, opened(), batchFromProto(m))
	cancel()
	require.ErrorIs(t, <-cause, context.Canceled)
	require.Zero(t, <-exits)
}

func TestAWatcherThatIsHeldUpBySendingIsReleasedWhenTheHostLetsGo(t *testing.T) {
	full := make(chan error, 1)
	c, exits := connected(t, &service{watch: watcher(func(_ context.Context, _ verbs.Options, send sender) error {
		b := verbs.Batch{Items: make([]verbs.Item, 10_000)}
		for i := range b.Items {
			b.Items[i].Run = &verbs.Run{Count: 1}
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
	require.Zero(t, <-exits)
}

func TestTheWorkerStaysUntilTheHostHasItsLastWord(t *testing.T) {
	last := verbs.Batch{Items: []verbs.Item{{Ended: &status.End{Reason: status.ReasonRemoved, Message: "gone"}}}}
	c, exits := connected(t, &service{watch: watcher(func(_ context.Context, _ verbs.Options, send sender) error {
		return send(last)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	in, err := c.Watch(ctx, requestToProto(verbs.Request{}))
	require.NoError(t, err)
	m, err := in.Recv()
	require.NoError(t, err)
	require.Equal(t, last, batchFromProto(m))
	require.Empty(t, exits)
	cancel()
	require.Zero(t, <-exits)
}

func TestAWorkerWhoseLibraryIsStuckExitsAtOnce(t *testing.T) {
	c, exits := connected(t, &service{watch: watcher(func(context.Context, verbs.Options, sender) error {
		return errors.Join(context.Canceled, verbs.ErrStuck)
	})})
	_, err := c.Watch(t.Context(), requestToProto(verbs.Request{}))
	require.NoError(t, err)
	require.Equal(t, exitStuck, <-exits)
}

func TestAWorkerThatCannotWatchSaysWhy(t *testing.T) {
	old := requestToProto(verbs.Request{})
	old.Version = 99
	for name, row := range map[string]struct {
		request *proto.WatchRequest
		want    string
	}{
		"no backend":             {requestToProto(verbs.Request{Backend: "x"}), `make backend "x": unexpected EOF`},
		"a host of another kind": {old, "unsupported operation: a request of contract 99 to a worker of contract 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := connected(t, &service{backend: func(verbs.Request) (verbs.Backend, error) { return nil, io.ErrUnexpectedEOF }})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, err := c.Watch(ctx, row.request)
			require.NoError(t, err)
			m, err := in.Recv()
			require.NoError(t, err)
			require.Equal(t, &status.End{Reason: status.ReasonUnsupported, Message: row.want},
				batchFromProto(m).Items[0].Ended)
		})
	}
}

func TestAWorkerServesOneWatch(t *testing.T) {
	c, _ := connected(t, &service{watch: watcher(func(ctx context.Context, _ verbs.Options, send sender) error {
		if err := send(opened()); err != nil {
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
