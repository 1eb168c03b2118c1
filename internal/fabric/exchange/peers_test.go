package exchange

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"rdma_events/internal/fabric/exchange/proto"
)

func TestAHostThatIsNotInTheListLearnsIt(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.unlisted["gpu2"] = true
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	_, err := p.Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrNotListed)
	t.Log(err)
	_, err = p.State(testContext(t), nil)
	require.ErrorIs(t, err, ErrNotListed)
	require.Equal(t, Counts{Accepted: 1, Unmet: 2}, r.server.Counts(), "both came on one connection")

	r.update(func() { delete(r.unlisted, "gpu2") })
	require.NoError(t, mustConverse(t, p).Err())
}

func TestAHostThatLeavesTheListEndsItsConversationWithItsNextOffer(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	_, err := c.Offer(testContext(t), newOffer(42))
	require.NoError(t, err)
	r.update(func() { r.unlisted["gpu2"] = true })
	_, err = c.Offer(testContext(t), newOffer(43))
	require.ErrorIs(t, err, ErrNotListed)
	require.ErrorIs(t, c.Err(), ErrNotListed)
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{42}, r.ended[0])
	require.Len(t, r.offers, 1)
}

func TestANewListEndsTheConversationsWithHostsThatItLacks(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	stays := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	p := newPeer(t, r, "gpu3", credentialsOf(t, "gpu3", key))
	goes := mustConverse(t, p)
	r.update(func() { r.unlisted["gpu3"] = true })
	r.server.EndUnlisted()
	for range goes.Changes() {
		t.Error("a change came")
	}
	require.Error(t, goes.Err())
	_, err := p.Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrNotListed)
	require.NoError(t, stays.Err())
}

func TestAHostThatGreetsWithAnotherNameThanItsCertificatesIsRefused(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	p := newPeer(t, r, "gpu3", credentialsOf(t, "gpu2", key))
	requireKey(t, r, p)
	requireKey(t, r, newPeer(t, r, "", credentialsOf(t, "gpu2", key)))
	require.EqualValues(t, 4, r.server.Counts().Unmet)
}

func TestAHostThatAnswersWithAnotherNameThanItsCertificatesIsRefused(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.config.Host = "gpu7" })
	_, err := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)).Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrKey)
}

func TestTheHighestVersionOfBothIsSpoken(t *testing.T) {
	rows := map[string]struct {
		caller, host versions
		want         uint32 // 0: none
	}{
		"equal":                           {versions{1, 1}, versions{1, 1}, 1},
		"the caller is newer":             {versions{1, 3}, versions{1, 1}, 1},
		"the host is newer":               {versions{1, 1}, versions{1, 2}, 1},
		"both have more":                  {versions{2, 4}, versions{1, 3}, 3},
		"the caller does not go so low":   {versions{2, 3}, versions{1, 1}, 0},
		"the host does not go so low":     {versions{1, 1}, versions{2, 3}, 0},
		"an empty range has nothing":      {versions{0, 0}, versions{1, 1}, 0},
		"a range from high to low either": {versions{3, 1}, versions{1, 3}, 0},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			v, ok := row.host.highestCommon(row.caller)
			require.Equal(t, row.want != 0, ok)
			r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.versions = row.host })
			p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key), func(n *TCP) { n.versions = row.caller })
			if row.want == 0 {
				_, err := p.Converse(testContext(t), "")
				require.ErrorIs(t, err, ErrVersion)
				return
			}
			require.Equal(t, row.want, v)
			_, err := mustConverse(t, p).Offer(testContext(t), newOffer(1))
			require.NoError(t, err)
		})
	}
}

func TestAHostThatChoosesAVersionThatWasNotOfferedIsRefused(t *testing.T) {
	own := credentialsOf(t, "gpu1", key)
	f := fake{converse: func(s stream) error {
		g := ownVersions.newGreeting("gpu1", "00")
		g.Version = 2
		return s.Send(&proto.Reply{What: &proto.Reply_Greeting{Greeting: g}})
	}}
	_, err := newPeer(t, f.serve(t, "gpu1", own), "gpu2", credentialsOf(t, "gpu2", key)).Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrVersion)
}

// withUnknownField adds to a message a field that this version does not know, as a later version may do.
func withUnknownField[M message](m M) M {
	raw := protowire.AppendTag(nil, 1000, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(raw, "what 2030 knows"))
	return m
}

func TestWhatAHostDoesNotKnowItIgnoresAndCounts(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	s := rawStream(t, rawClient(t, r, credentialsOf(t, "gpu2", key)))
	require.NoError(t, s.Send(withUnknownField(greetingCall(ownVersions.newGreeting("gpu2", "00")))))
	m, err := s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.GetGreeting())

	require.NoError(t, s.Send(&proto.Call{}))                   // a message without content
	require.NoError(t, s.Send(withUnknownField(&proto.Call{}))) // counted as a message without known content and for its unknown field
	deep := offerCall(newOffer(9))
	withUnknownField(deep.GetOffer().GetPort().GetGids()[1])
	require.NoError(t, s.Send(deep))
	m, err = s.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 9, m.GetAnswer().GetSession())
	require.Equal(t, []Offer{newOffer(9)}, r.offers)
	require.Equal(t, Counts{Accepted: 1, Conversed: 1, Unknown: 5}, r.server.Counts())
}

func TestWhatACallerDoesNotKnowItIgnoresAndCounts(t *testing.T) {
	own := credentialsOf(t, "gpu1", key)
	f := fake{
		converse: func(s stream) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			g := ownVersions.newGreeting("gpu1", "00")
			g.Version, g.Features = 1, 1<<63
			for _, m := range []*proto.Reply{
				{What: &proto.Reply_Greeting{Greeting: withUnknownField(g)}}, {}, withUnknownField(&proto.Reply{}),
				{What: &proto.Reply_Answer{Answer: &proto.Answer{Session: 77, Reason: "full"}}}, // for no offer
				{What: &proto.Reply_Change{Change: &proto.Change{Device: "../etc", Port: 1}}},
				{What: &proto.Reply_Change{Change: &proto.Change{Device: "mlx5_0", Port: 256}}},
				{What: &proto.Reply_Change{Change: &proto.Change{Device: "mlx5_0", Port: 255, Epoch: 3}}},
			} {
				if err := s.Send(m); err != nil {
					return err
				}
			}
			<-s.Context().Done()
			return nil
		},
		state: func() (*proto.StateReply, error) { return withUnknownField(&proto.StateReply{}), nil },
	}
	n := New(NetworkConfig{})
	p := newPeer(t, f.serve(t, "gpu1", own), "gpu2", credentialsOf(t, "gpu2", key), func(own *TCP) { n = own })
	c := mustConverse(t, p)
	require.Equal(t, Change{Device: "mlx5_0", Port: 255, Epoch: 3}, <-c.Changes())
	_, err := p.State(testContext(t), nil)
	require.NoError(t, err)
	require.Equal(t, Counts{Conversed: 1, Malformed: 2, Unknown: 5}, n.Counts())
}

func TestAReasonOfALaterVersionIsAFailure(t *testing.T) {
	a, err := answerFromProto(&proto.Answer{Session: 1, Reason: "asleep\n\x1b[2J"})
	require.NoError(t, err)
	require.Equal(t, Answer{Reason: "failed"}, a)
}

// Text of a peer does not reach the caller's log, not even in a gRPC error.
func TestTheTextOfAPeersErrorIsNotPassedOn(t *testing.T) {
	const forged = "E! forged\x1b[2J"
	f := fake{
		state:    func() (*proto.StateReply, error) { return nil, grpcstatus.Error(codes.Internal, forged) },
		converse: func(stream) error { return grpcstatus.Error(codes.Code(99), forged) },
	}
	p := newPeer(t, f.serve(t, "gpu1", credentialsOf(t, "gpu1", key)), "gpu2", credentialsOf(t, "gpu2", key))
	_, err := p.State(testContext(t), nil)
	require.ErrorContains(t, err, "Internal")
	require.NotContains(t, err.Error(), "forged")
	_, err = p.Converse(testContext(t), "")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "forged")
}

// A host that answers every call with Unavailable is called twice, not forever.
func TestAHostThatSaysThatItIsUnavailableIsAskedTwice(t *testing.T) {
	asked := 0
	f := fake{state: func() (*proto.StateReply, error) {
		if asked++; asked == 1 {
			return &proto.StateReply{}, nil
		}
		return nil, grpcstatus.Error(codes.Unavailable, "")
	}}
	p := newPeer(t, f.serve(t, "gpu1", credentialsOf(t, "gpu1", key)), "gpu2", credentialsOf(t, "gpu2", key))
	_, err := p.State(testContext(t), nil)
	require.NoError(t, err)
	_, err = p.State(testContext(t), nil)
	requireOther(t, err)
	require.Equal(t, 3, asked)
}

func TestAHostThatAcceptsAndSaysNothingIsAnErrorWhenTheContextEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	p := newPeer(t, &responder{name: "gpu1", addr: l.Addr().String()}, "gpu2", credentialsOf(t, "gpu2", key))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.State(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.Converse(ctx, "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAGreetingWithoutAnAnswerEndsWithItsContext(t *testing.T) {
	f := fake{converse: func(s stream) error { <-s.Context().Done(); return nil }}
	p := newPeer(t, f.serve(t, "gpu1", credentialsOf(t, "gpu1", key)), "gpu2", credentialsOf(t, "gpu2", key))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := p.Converse(ctx, "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
