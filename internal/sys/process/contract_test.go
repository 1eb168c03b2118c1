package process

import (
	"context"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/status"
)

// message is a message of the child in these tests: "opened", "beat", or "ended" with a
// reason and a text.
type message = string

func endedMessage(why status.Reason, text string) message { return "ended " + string(why) + " " + text }

// testContract is the contract of these tests. Its shared memory is a ledger, in which
// the child records the call that it is in.
type testContract struct {
	*recorder
	last status.Status
}

func (c *testContract) Begin() (Attempt[message], []*os.File, error) {
	led, file, err := ledger.New("test")
	if err != nil {
		return nil, nil, err
	}
	c.started(led)
	return &testAttempt{testContract: c, led: led}, []*os.File{file}, nil
}

func (c *testContract) Status(s status.Status) {
	if s != c.last {
		c.last = s
		c.setStatus(s)
	}
}

type testAttempt struct {
	*testContract
	led *ledger.Ledger
}

func (a *testAttempt) Alive() int64 { return a.led.LastAlive() }

func (*testAttempt) Stream(ctx context.Context, c *grpc.ClientConn, next func(message) error) error {
	in, err := c.NewStream(ctx, &talkStream, talkMethod)
	if err != nil {
		return fmt.Errorf("ask the child: %w", err)
	}
	if err := in.SendMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	for {
		var m wrapperspb.StringValue
		if err := in.RecvMsg(&m); err != nil {
			return fmt.Errorf("read from the child: %w", err)
		}
		if err := next(m.GetValue()); err != nil {
			return err
		}
	}
}

func (*testAttempt) Sign(m message) Sign {
	rest, isEnd := strings.CutPrefix(m, "ended ")
	if !isEnd {
		return Sign{Running: m == "opened"}
	}
	why, text, _ := strings.Cut(rest, " ")
	s := Sign{End: &status.End{Reason: status.Reason(why), Message: text}}
	switch s.End.Reason {
	case status.ReasonRemoved:
		s.Retry = OnWake
	case status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonLimit:
		s.Retry = Slowly
	case status.ReasonUnwatchable:
		s.Retry = Rarely
	}
	return s
}

func (a *testAttempt) Take(m message, s status.Status) {
	a.message(m)
	a.Status(s)
}

func (a *testAttempt) Busy(held func(int) bool) Call {
	var s ledger.Contents
	a.led.CopyTo(&s)
	return callOf(s.LongestCall(held))
}

func (a *testAttempt) Faulted() Call {
	var s ledger.Contents
	a.led.CopyTo(&s)
	return callOf(s.FaultedCall())
}

func callOf(l ledger.ThreadCall) Call {
	if l.Call == ledger.CallNone {
		return Call{}
	}
	return Call{Name: l.Call.String(), Since: l.Since}
}

func (a *testAttempt) Ended(why status.End) {
	a.ended(why)
	_ = a.led.Close() // it is mapped
}

const talkMethod = "/test.Child/Talk"

var talkStream = grpc.StreamDesc{StreamName: "Talk", ServerStreams: true}

// talker is the child's side: one call that sends messages.
type talker func(ctx context.Context, send func(message) error) error

func (t talker) register(r grpc.ServiceRegistrar) {
	stream := talkStream
	stream.Handler = func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return t(s.Context(), func(m message) error { return s.SendMsg(wrapperspb.String(m)) })
	}
	r.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Child", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{stream}}, t)
}

// inCall records in the shared memory that the child is in a call.
func inCall(l *ledger.Ledger, c ledger.Call) {
	l.SetControlCall(ledger.ThreadCall{Call: c, Since: clock.Monotonic()})
}

func testHandshake() Handshake {
	return Handshake{Key: "RDMA_EVENTS_TEST_CHILD", Value: "yes", Version: 1}
}

// testSpec is the Spec of a child in the given mode.
func testSpec() Spec {
	return Spec{
		Name: "test-child", Title: "mlx5_0", Subject: "child of mlx5_0", Resource: "device", Option: "child_path",
		Handshake: testHandshake(),
	}
}
