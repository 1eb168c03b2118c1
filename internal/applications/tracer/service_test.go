package tracer

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/sys/status"
)

// scripted is a Source that returns the given changes, then waits until it is closed, and then returns the last changes.
type scripted struct {
	attached trace.Attached
	changes  []*trace.Update
	err      error // returned after the changes; nil: it waits
	last     []*trace.Update

	closes atomic.Int64
	closed chan struct{}
}

func newScripted(changes ...*trace.Update) *scripted {
	return &scripted{attached: trace.Attached{Hooks: "test"}, changes: changes, closed: make(chan struct{})}
}

func (s *scripted) Attached() trace.Attached { return s.attached }

func (s *scripted) Next(ctx context.Context) (*trace.Update, error) {
	if one := takeUpdate(&s.changes); one != nil {
		return one, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	select {
	case <-s.closed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if one := takeUpdate(&s.last); one != nil {
		return one, nil
	}
	return nil, trace.ErrClosed
}

func takeUpdate(from *[]*trace.Update) *trace.Update {
	if len(*from) == 0 {
		return nil
	}
	one := (*from)[0]
	*from = (*from)[1:]
	return one
}

func (s *scripted) Close() error {
	if s.closes.Add(1) == 1 {
		close(s.closed)
	}
	return nil
}

// connectClient serves a source in this process and returns a connection to it. The channel receives the arguments of the calls to end.
func connectClient(
	t *testing.T, open func(trace.Request) (trace.Source, error), options ...grpc.DialOption,
) (*grpc.ClientConn, <-chan bool) {
	t.Helper()
	ends := make(chan bool, 1)
	pipe := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	proto.RegisterTracerServer(server, &service{open: open, end: func(stuck bool) { ends <- stuck }})
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, server.Serve(pipe)) })
	c, err := grpc.NewClient("passthrough:tracer", append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		server.Stop()
		serving.Wait()
	})
	return c, ends
}

func openerOf(s trace.Source) func(trace.Request) (trace.Source, error) {
	return func(trace.Request) (trace.Source, error) { return s, nil }
}

// receiveMessages returns the messages that an attempt receives until the stream ends. It calls after with the number of messages.
func receiveMessages(ctx context.Context, c *grpc.ClientConn, r trace.Request, after func(int)) ([]message, error) {
	var all []message
	a := attempt{&contract{request: r}}
	err := a.Stream(ctx, c, func(m message) error {
		all = append(all, m)
		after(len(all))
		return nil
	})
	return all, err
}

func TestAnOrderlyEndBringsTheLastSnapshot(t *testing.T) {
	source := newScripted(&trace.Update{Mono: 1}, &trace.Update{Mono: 2})
	source.last = []*trace.Update{{Mono: 3}}
	var asked trace.Request
	c, ends := connectClient(t, func(r trace.Request) (trace.Source, error) {
		asked = r
		return source, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := trace.Request{Backend: "sim", HangAfter: 5}
	got, err := receiveMessages(ctx, c, r, func(n int) {
		if n == 3 {
			cancel()
		}
	})
	require.ErrorIs(t, err, errEnded)
	require.Equal(t, []message{
		{attached: &trace.Attached{Hooks: "test"}},
		{update: &trace.Update{Mono: 1}}, {update: &trace.Update{Mono: 2}}, {update: &trace.Update{Mono: 3}},
		{end: &status.End{Reason: status.ReasonCrashed, Message: "tracer: the source is closed"}},
	}, got)
	require.Equal(t, r, asked)
	require.False(t, <-ends)
	require.EqualValues(t, 1, source.closes.Load())
}

func TestATracerThatIsAskedToEndBeforeItBeganEnds(t *testing.T) {
	source := newScripted()
	c, ends := connectClient(t, openerOf(source))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := receiveMessages(ctx, c, trace.Request{}, func(int) {})
	require.ErrorIs(t, err, errEnded)
	require.Len(t, got, 2)
	require.False(t, <-ends)
	require.EqualValues(t, 1, source.closes.Load())
}

func TestASourceThatEndsSaysWhy(t *testing.T) {
	source := newScripted(&trace.Update{Mono: 1})
	source.err = trace.ErrUnloaded
	c, ends := connectClient(t, openerOf(source))
	got, err := receiveMessages(t.Context(), c, trace.Request{}, func(int) {})
	require.ErrorIs(t, err, errEnded)
	require.Len(t, got, 3)
	require.Equal(t, &status.End{Reason: status.ReasonRemoved, Message: "tracer: the driver core was unloaded"}, got[2].end)
	require.False(t, <-ends, "a tracer whose host has hung up exits")
	require.EqualValues(t, 1, source.closes.Load())
}

func TestASourceThatCannotBeginSaysWhy(t *testing.T) {
	c, ends := connectClient(t, func(trace.Request) (trace.Source, error) { return nil, trace.ErrPermission })
	got, err := receiveMessages(t.Context(), c, trace.Request{}, func(int) {})
	require.ErrorIs(t, err, errEnded)
	require.Equal(t, []message{
		{end: &status.End{Reason: status.ReasonNoPermission, Message: "tracer: the privilege is missing"}},
	}, got)
	require.False(t, <-ends)
}

func TestATracerStaysUntilItsHostHasTheFinalMessage(t *testing.T) {
	source := newScripted()
	source.err = trace.ErrNoDevice
	c, ends := connectClient(t, openerOf(source))
	ctx, hangUp := context.WithCancel(t.Context())
	in, err := proto.NewTracerClient(c).Trace(ctx)
	require.NoError(t, err)
	require.NoError(t, in.Send(requestToProto(trace.Request{})))
	for range 2 {
		_, err = in.Recv()
		require.NoError(t, err)
	}
	require.Empty(t, ends)
	hangUp()
	require.False(t, <-ends)
}

func TestAHostThatIsGoneEndsTheSource(t *testing.T) {
	source := newScripted()
	c, ends := connectClient(t, openerOf(source))
	ctx, hangUp := context.WithCancel(t.Context())
	in, err := proto.NewTracerClient(c).Trace(ctx)
	require.NoError(t, err)
	require.NoError(t, in.Send(requestToProto(trace.Request{})))
	_, err = in.Recv()
	require.NoError(t, err)
	hangUp()
	require.False(t, <-ends)
	require.EqualValues(t, 1, source.closes.Load())
}

func TestAHostOfAnotherKindIsRefused(t *testing.T) {
	c, _ := connectClient(t, openerOf(newScripted()))
	in, err := proto.NewTracerClient(c).Trace(t.Context())
	require.NoError(t, err)
	old := requestToProto(trace.Request{})
	old.Version = 99
	require.NoError(t, in.Send(old))
	m, err := in.Recv()
	require.NoError(t, err)
	require.Equal(t, &status.End{
		Reason:  status.ReasonUnsupported,
		Message: "tracer: this kernel cannot be traced: a request of contract 99 to a tracer of contract 2",
	}, messageFromProto(m).end)
}

func TestATracerServesOneTrace(t *testing.T) {
	c, _ := connectClient(t, openerOf(newScripted()))
	requireSecondTraceRefused(t, c)
}

// requireSecondTraceRefused starts a trace and requires that another one is refused while it runs.
func requireSecondTraceRefused(t *testing.T, c *grpc.ClientConn) {
	t.Helper()
	first, err := proto.NewTracerClient(c).Trace(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Send(requestToProto(trace.Request{})))
	_, err = first.Recv()
	require.NoError(t, err)
	_, err = receiveMessages(t.Context(), c, trace.Request{}, func(int) {})
	require.Equal(t, codes.FailedPrecondition, grpcstatus.Code(err))
}

func TestRefusalBeforeTheRequestIsReported(t *testing.T) {
	calls := 0
	c, _ := connectClient(t, openerOf(newScripted()), grpc.WithStreamInterceptor(func(
		ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, call grpc.Streamer, o ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := call(ctx, d, c, method, o...)
		if calls++; calls == 2 && err == nil {
			_, err = stream.Header() // returns when the refusal has arrived
		}
		return stream, err
	}))
	requireSecondTraceRefused(t, c)
}

func TestAHandlerThatFailsEndsTheStream(t *testing.T) {
	c, ends := connectClient(t, openerOf(newScripted()))
	enough := errors.New("enough")
	err := attempt{&contract{}}.Stream(t.Context(), c, func(message) error { return enough })
	require.ErrorIs(t, err, enough)
	require.False(t, <-ends)
}

func TestAMessageThatIsTooLargeIsNotRead(t *testing.T) {
	huge := &trace.Update{Apps: make([]trace.App, maxMessage/pb.Size(appToProto(&trace.App{}))+1)}
	c, _ := connectClient(t, openerOf(newScripted(huge)))
	_, err := receiveMessages(t.Context(), c, trace.Request{}, func(int) {})
	require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err))
}
