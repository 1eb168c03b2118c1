package exchange

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/fabric/exchange/proto"
)

// With a stopped clock, only the burst of offers is answered.
func TestAnEndlessStreamOfOffersWaits(t *testing.T) {
	clock := &stoppedClock{now: time.Unix(1000, 0)}
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.config.Now = clock.Now })
	s := rawGreet(t, rawClient(t, r, credentialsOf(t, "gpu2", key)), "gpu2")
	var flooding sync.WaitGroup
	sent := 0
	flooding.Go(func() {
		for s.Send(offerCall(newOffer(uint64(sent+1)))) == nil {
			sent++
		}
	})
	for range 20 {
		_, err := s.Recv()
		require.NoError(t, err)
	}
	clock.advance(100 * time.Millisecond)
	for range 2 {
		_, err := s.Recv()
		require.NoError(t, err)
	}
	r.stop()
	flooding.Wait()
	require.Len(t, r.offers, 22)
	t.Logf("%d offers were sent, 22 were answered, the others waited in the sender or in 64 KiB", sent)
}

// Messages without an answer are limited too.
func TestAnEndlessStreamOfLeavesWaits(t *testing.T) {
	clock := &stoppedClock{now: time.Unix(1000, 0)}
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.config.Now = clock.Now })
	s := rawGreet(t, rawClient(t, r, credentialsOf(t, "gpu2", key)), "gpu2")
	var flooding sync.WaitGroup
	flooding.Go(func() {
		for s.Send(&proto.Call{What: &proto.Call_Leave{Leave: &proto.Leave{Session: 5}}}) == nil {
		}
	})
	r.await(t, func() bool { return len(r.left) == 200 })
	r.stop()
	flooding.Wait()
	require.Len(t, r.left, 200)
}

func TestOffersAreAnsweredOneAtATime(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	busy := make(chan struct{}, 1)
	r.meet = func(context.Context, string, Offer) Answer {
		select {
		case busy <- struct{}{}:
			<-busy
		default:
			return Answer{Reason: "two at once"}
		}
		return Answer{Port: newPort("mlx5_1"), RC: 2}
	}
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	var offering sync.WaitGroup
	for session := range uint64(40) {
		offering.Go(func() {
			a, err := c.Offer(testContext(t), newOffer(session+1))
			if err != nil || a.Reason != "" {
				t.Error(a.Reason, err)
			}
		})
	}
	offering.Wait()
	require.Len(t, r.offers, 40)
}

func TestASessionIsOfferedOnceAtATime(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.meet = func(ctx context.Context, _ string, _ Offer) Answer { <-ctx.Done(); return Answer{Reason: "failed"} }
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	c := mustConverse(t, p)
	var offering sync.WaitGroup
	offering.Go(func() {
		if _, err := c.Offer(testContext(t), newOffer(1)); err == nil {
			t.Error("the conversation has ended, and the offer has not")
		}
	})
	r.await(t, func() bool { return len(r.offers) == 1 })
	_, err := c.Offer(testContext(t), newOffer(1))
	require.ErrorIs(t, err, errDuplicateSession)
	require.NoError(t, p.Close())
	offering.Wait()
}

func TestAMessageThatIsTooLongEndsTheConversation(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	client := rawClient(t, r, credentialsOf(t, "gpu2", key))
	s := rawGreet(t, client, "gpu2")
	require.NoError(t, s.Send(greetingCall(&proto.Greeting{Host: strings.Repeat("x", maxMessage)})))
	_, err := s.Recv()
	require.Error(t, err)
	r.await(t, func() bool { return len(r.ended) == 1 })
	rawGreet(t, client, "gpu2")
}

func TestAnAnswerThatIsTooLongIsAnError(t *testing.T) {
	f := fake{state: func() (*proto.StateReply, error) {
		return &proto.StateReply{Ports: []*proto.PortState{{Device: strings.Repeat("x", maxMessage), Port: 1}}}, nil
	}}
	_, err := newPeer(t, f.serve(t, "gpu1", credentialsOf(t, "gpu1", key)), "gpu2", credentialsOf(t, "gpu2", key)).State(testContext(t), nil)
	requireOther(t, err)
}

func TestAHostWithoutAGreetingIsRefused(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.greetingTimeout = 50 * time.Millisecond })
	client := rawClient(t, r, credentialsOf(t, "gpu2", key))
	for name, say := range map[string]func(s interface{ Send(*proto.Call) error }) error{
		"it says nothing":                 func(interface{ Send(*proto.Call) error }) error { return nil },
		"it offers first":                 func(s interface{ Send(*proto.Call) error }) error { return s.Send(offerCall(newOffer(1))) },
		"it begins with an unknown thing": func(s interface{ Send(*proto.Call) error }) error { return s.Send(withUnknownField(&proto.Call{})) },
	} {
		t.Run(name, func(t *testing.T) {
			s := rawStream(t, client)
			require.NoError(t, say(s))
			_, err := s.Recv()
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
			require.ErrorIs(t, callError(err), errRefused)
		})
	}
	require.Empty(t, r.ended)
	require.Empty(t, r.offers)
}

func TestAHostHasFourConversationsAtMost(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	var open []Conversation
	for range 4 {
		open = append(open, mustConverse(t, p))
	}
	_, err := p.Converse(testContext(t), "")
	require.ErrorIs(t, err, errRefused)
	requireOther(t, err)
	require.NoError(t, mustConverse(t, newPeer(t, r, "gpu3", credentialsOf(t, "gpu3", key))).Err(), "another host's do not count")
	require.NoError(t, open[0].Close())
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.NoError(t, mustConverse(t, p).Err())
}

func TestAllHostsTogetherHaveSoManyConversationsAtMost(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.conversations = 3 })
	for i := range 3 {
		host := fmt.Sprint("gpu", i+2)
		mustConverse(t, newPeer(t, r, host, credentialsOf(t, host, key)))
	}
	_, err := newPeer(t, r, "gpu9", credentialsOf(t, "gpu9", key)).Converse(testContext(t), "")
	require.ErrorIs(t, err, errRefused)
	require.EqualValues(t, 3, r.server.Counts().Conversed)
}

func TestConnectionsAreBounded(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.connections = 2 })
	for _, host := range []string{"gpu2", "gpu3"} {
		_, err := newPeer(t, r, host, credentialsOf(t, host, key)).State(testContext(t), nil)
		require.NoError(t, err)
	}
	_, err := newPeer(t, r, "gpu4", credentialsOf(t, "gpu4", key)).State(testContext(t), nil)
	requireOther(t, err)
	require.EqualValues(t, 1, r.server.Counts().Refused)
}

// A gRPC client respects the server's limit of streams: a stream above the limit waits until another one ends.
func TestCallsOfAConnectionAreBounded(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.perHost = 100 })
	client := rawClient(t, r, credentialsOf(t, "gpu2", key))
	for range 16 {
		rawGreet(t, client, "gpu2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.State(ctx, &proto.StateRequest{Host: "gpu2"})
	require.Equal(t, codes.DeadlineExceeded, grpcstatus.Code(err))
}

func TestRequestsForTheStateAreBounded(t *testing.T) {
	clock := &stoppedClock{now: time.Unix(1000, 0)}
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.config.Now = clock.Now })
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	for range 20 {
		_, err := p.State(testContext(t), nil)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.State(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAHostThatDoesNotReadNeverBlocksTheOthers(t *testing.T) {
	// With a longer queue than usual, a goroutine that is merely slow is not mistaken for one that does not read.
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.queuedReplies = 10_000 })
	rawGreet(t, rawClient(t, r, credentialsOf(t, "gpu2", key)), "gpu2") // its replies are not read
	c := mustConverse(t, newPeer(t, r, "gpu3", credentialsOf(t, "gpu3", key)))
	last := uint64(0)
	for r.server.Counts().Dropped == 0 {
		last++
		require.Less(t, last, uint64(1_000_000))
		r.server.AnnounceChange(Change{Device: "mlx5_0", Port: 1, Epoch: last})
		require.Equal(t, last, (<-c.Changes()).Epoch)
	}
	began := time.Now()
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Less(t, time.Since(began), 10*defaultLimits().flushTimeout)
	require.NoError(t, c.Err())
	require.EqualValues(t, 1, r.server.Counts().Dropped)
	t.Logf("it was dropped after %d changes", last)
}

func TestChangesThatAreNotReadEndTheConversationHere(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.queuedReplies = 2 * maxQueuedChanges })
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	for i := range maxQueuedChanges + 1 {
		r.server.AnnounceChange(Change{Device: "mlx5_0", Port: 1, Epoch: uint64(i)})
	}
	r.await(t, func() bool { return len(r.ended) == 1 })
	n := 0
	for range c.Changes() {
		n++
	}
	require.Equal(t, maxQueuedChanges, n)
	require.ErrorIs(t, c.Err(), errChangesNotRead)
}

func TestTheNewestSessionsAreRemembered(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.sessions = 3 })
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	for _, session := range []uint64{1, 2, 3, 1, 4} {
		_, err := c.Offer(testContext(t), newOffer(session))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{3, 1, 4}, r.ended[0])
}
