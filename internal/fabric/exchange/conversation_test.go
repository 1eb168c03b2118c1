package exchange

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

func TestTwoHostsOfOneKeyMeet(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	require.Equal(t, "00112233aabbccdd", c.Digest())

	a, err := c.Offer(testContext(t), newOffer(42))
	require.NoError(t, err)
	require.Equal(t, Answer{Port: newPort("mlx5_1"), RC: 0x4711, PSN: 0xffffff}, a)
	require.Equal(t, []Offer{newOffer(42)}, r.offers)

	r.server.AnnounceChange(Change{Device: "mlx5_1", Port: 2, Epoch: 99})
	require.Equal(t, Change{Device: "mlx5_1", Port: 2, Epoch: 99}, <-c.Changes())

	require.NoError(t, c.Leave(42))
	r.await(t, func() bool { return len(r.left) == 1 && r.left[0] == 42 })
	require.NoError(t, c.Err())
}

func TestAnOfferThatIsNotMetSaysWhy(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.meet = func(context.Context, string, Offer) Answer {
		return Answer{Reason: verdict.ReasonFull, Port: newPort("mlx5_1")}
	}
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	a, err := c.Offer(testContext(t), newOffer(42))
	require.NoError(t, err)
	require.Equal(t, Answer{Reason: verdict.ReasonFull}, a)
}

func TestReconcileReturnsSessionsThatAreLacking(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	held := Held{Sessions: []uint64{1, 100, 2, 1 << 63}, Epochs: []uint64{7}}
	lacking, err := c.Reconcile(testContext(t), held)
	require.NoError(t, err)
	require.Equal(t, []uint64{100, 1 << 63}, lacking)
	require.Equal(t, []*Held{&held}, r.held)

	_, err = c.Offer(testContext(t), newOffer(3))
	require.NoError(t, err)
	require.NoError(t, c.Leave(2))
	require.NoError(t, c.Close())
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{1, 3}, r.ended[0], "of those that were kept or met, the ones that were not left")
}

func TestOfferThatHangsDoesNotDelayOthers(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.meet = func(ctx context.Context, _ string, o Offer) Answer {
		if o.Session == 1 {
			<-ctx.Done() // like a device whose firmware hangs
			return Answer{Reason: verdict.ReasonFailed}
		}
		return Answer{Port: newPort("mlx5_1"), RC: 0x4711}
	}
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	ctx, giveUp := context.WithCancel(testContext(t))
	hung := make(chan error, 1)
	go func() {
		_, err := c.Offer(ctx, newOffer(1))
		hung <- err
	}()
	r.await(t, func() bool { return len(r.offers) == 1 })
	_, err := c.Offer(testContext(t), newOffer(2))
	require.NoError(t, err)
	giveUp()
	require.ErrorIs(t, <-hung, context.Canceled)
	require.NoError(t, c.Close())
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{2}, r.ended[0])
}

func TestStateNamesSessionsThatAreLacking(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	state, err := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)).State(testContext(t), []uint64{100, 3, 101})
	require.NoError(t, err)
	require.True(t, state.LackingKnown)
	require.Equal(t, []uint64{100, 101}, state.Lacking)
}

// greetOlder returns the greeting of a host that runs the first release, which has no features.
func greetOlder() *proto.Greeting {
	g := ownVersions.newGreeting("gpu2", "00")
	g.Features = 0
	return g
}

func TestSessionsOfOlderCallerAreKept(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	s := rawStream(t, rawClient(t, r, credentialsOf(t, "gpu2", key)))
	require.NoError(t, s.Send(greetingCall(greetOlder())))
	_, err := s.Recv()
	require.NoError(t, err)
	r.await(t, func() bool { return len(r.held) == 1 && r.held[0] == nil })
	require.NoError(t, s.CloseSend())
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{1}, r.ended[0])
}

func TestOlderHostDoesNotKnowSessions(t *testing.T) {
	own := credentialsOf(t, "gpu1", key)
	f := fake{
		converse: func(s stream) error {
			g := greetOlder()
			g.Host, g.Version = "gpu1", 1
			if err := s.Send(&proto.Reply{What: &proto.Reply_Greeting{Greeting: g}}); err != nil {
				return err
			}
			<-s.Context().Done()
			return nil
		},
		state: func() (*proto.StateReply, error) { return &proto.StateReply{}, nil },
	}
	p := newPeer(t, f.serve(t, "gpu1", own), "gpu2", credentialsOf(t, "gpu2", key))
	_, err := mustConverse(t, p).Reconcile(testContext(t), Held{Sessions: []uint64{1}})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	state, err := p.State(testContext(t), []uint64{1})
	require.NoError(t, err)
	require.False(t, state.LackingKnown)
}

func TestTooManySessionsAreRefusedByBothSides(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	many := make([]uint64, maxSessions+1)
	_, err := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))).Reconcile(testContext(t), Held{Sessions: many})
	require.ErrorIs(t, err, ErrMalformed)
	client := rawClient(t, r, credentialsOf(t, "gpu2", key))
	_, err = client.State(testContext(t), &proto.StateRequest{Host: "gpu2", Sessions: many})
	require.Error(t, err)
	s := rawStream(t, client)
	require.NoError(t, s.Send(greetingCall(ownVersions.newGreeting("gpu2", "00"))))
	require.NoError(t, s.Send(&proto.Call{What: &proto.Call_Held{Held: &proto.Held{Sessions: many}}}))
	for range 2 {
		_, err = s.Recv()
		require.NoError(t, err)
	}
	require.Empty(t, r.held)
	require.EqualValues(t, 2, r.server.Counts().Malformed)
}

// The Handler holds its lock when it announces a change, and locks it when the Server looks up a host.
func TestNewListAndChangeAtOnceDoNotBlockEachOther(t *testing.T) {
	var own sync.Mutex
	l := &lockedList{fakeHandler: newFakeHandler(), lock: &own}
	s := NewServer(ServerConfig{Host: "gpu1", Credentials: credentialsOf(t, "gpu1", key), Handler: l, Now: time.Now})
	s.conversations[&serverConversation{host: "gpu2", replies: make(chan *proto.Reply, 1), cancel: func() {}, server: s}] = struct{}{}
	l.asked = func() {
		go func() {
			own.Lock()
			defer own.Unlock()
			s.AnnounceChange(Change{Device: "mlx5_0", Port: 1, Epoch: 1})
			l.announced <- struct{}{}
		}()
		<-l.announced // before the list is read
	}
	l.announced = make(chan struct{})
	s.EndUnlisted()
}

// lockedList is a Handler with a lock. It calls asked before it locks.
type lockedList struct {
	*fakeHandler
	lock      *sync.Mutex
	asked     func()
	announced chan struct{}
}

func (l *lockedList) Listed(host string) (string, bool) {
	l.asked()
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.fakeHandler.Listed(host)
}

func TestStateIsAnsweredWithoutAConversation(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	state, err := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)).State(testContext(t), nil)
	require.NoError(t, err)
	ports, lacking := r.States("gpu2", nil)
	require.Equal(t, State{Ports: ports, Lacking: lacking, LackingKnown: true}, state)
	require.Empty(t, r.ended)
}

func TestTheEndOfAConversationNamesWhatWasMetAndNotLeft(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	for _, session := range []uint64{1, 2, 3} {
		_, err := c.Offer(testContext(t), newOffer(session))
		require.NoError(t, err)
	}
	require.NoError(t, c.Leave(2)) // messages sent before Close arrive
	require.NoError(t, c.Close())
	_, open := <-c.Changes()
	require.False(t, open)
	require.ErrorIs(t, c.Err(), net.ErrClosed)
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{1, 3}, r.ended[0])
	require.Equal(t, []uint64{2}, r.left)
}

func TestAnOfferEndsWithItsContextAndIsLeft(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	answers := make(chan struct{})
	r.meet = func(ctx context.Context, _ string, _ Offer) Answer {
		<-answers
		return Answer{Port: newPort("mlx5_1"), RC: 2}
	}
	c := mustConverse(t, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.await(t, func() bool { return len(r.offers) == 1 })
		cancel()
	}()
	_, err := c.Offer(ctx, newOffer(42))
	require.ErrorIs(t, err, context.Canceled)
	close(answers)
	r.await(t, func() bool { return len(r.left) == 1 && r.left[0] == 42 })
	require.NoError(t, c.Err())
}

func TestAHostThatGoesEndsItsConversationsAndIsReachedAgain(t *testing.T) {
	own := credentialsOf(t, "gpu1", key)
	r := startResponder(t, "gpu1", own)
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	c := mustConverse(t, p)
	_, err := c.Offer(testContext(t), newOffer(42))
	require.NoError(t, err)
	r.stop()
	for range c.Changes() {
	}
	require.Error(t, c.Err())
	require.Equal(t, [][]uint64{{42}}, r.ended)
	_, err = c.Offer(testContext(t), newOffer(43))
	require.ErrorIs(t, err, c.Err())
	require.Error(t, c.Leave(42))

	for range 5 {
		_, err = p.State(testContext(t), nil)
		require.Error(t, err)
		requireOther(t, err)
		_, err = p.Converse(testContext(t), "")
		requireOther(t, err)
	}
	startResponderAt(t, r.addr, "gpu1", own)
	_, err = p.State(testContext(t), nil)
	require.NoError(t, err, "the first try after the host is back")
	require.NoError(t, mustConverse(t, p).Err())
}

// requireOther requires an error that is no evidence about the peer.
func requireOther(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, known := range []error{ErrKey, ErrNotListed, ErrVersion, ErrMalformed} {
		require.NotErrorIs(t, err, known)
	}
}

func TestAHostWhereNobodyListensIsAnErrorAtOnce(t *testing.T) {
	p := newPeerAt(t, pinglist.Host{Name: "gpu1", Address: closedPort(t)}, "gpu2", credentialsOf(t, "gpu2", key))
	began := time.Now()
	_, err := p.State(testContext(t), nil)
	requireOther(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	t.Log(err)
}

func TestAClosedPeerSaysSo(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	c := mustConverse(t, p)
	require.NoError(t, p.Close())
	require.ErrorIs(t, c.Err(), net.ErrClosed)
	_, err := p.State(testContext(t), nil)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = p.Converse(testContext(t), "")
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, p.Close())
	require.NoError(t, errors.Join(c.Close(), c.Close()))
}
