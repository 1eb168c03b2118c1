package hello

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric"
)

func TestTwoHostsOfOneKeyMeet(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := converse(t, reach(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	require.Equal(t, "00112233aabbccdd", c.Digest())

	a, err := c.Offer(soon(t), offer(42))
	require.NoError(t, err)
	require.Equal(t, Answer{Port: port("mlx5_1"), RC: 0x4711, PSN: 0xffffff}, a)
	require.Equal(t, []Offer{offer(42)}, r.offers)

	r.server.Changed(Change{Device: "mlx5_1", Port: 2, Epoch: 99})
	require.Equal(t, Change{Device: "mlx5_1", Port: 2, Epoch: 99}, <-c.Changes())

	require.NoError(t, c.Leave(42))
	r.await(t, func() bool { return len(r.left) == 1 && r.left[0] == 42 })
	require.NoError(t, c.Err())
}

func TestAnOfferThatIsNotMetSaysWhy(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	r.meet = func(context.Context, string, Offer) Answer {
		return Answer{Reason: fabric.ReasonFull, Port: port("mlx5_1")}
	}
	c := converse(t, reach(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	a, err := c.Offer(soon(t), offer(42))
	require.NoError(t, err)
	require.Equal(t, Answer{Reason: fabric.ReasonFull}, a)
}

func TestStateIsAnsweredWithoutAConversation(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	states, err := reach(t, r, "gpu2", credentialsOf(t, "gpu2", key)).State(soon(t))
	require.NoError(t, err)
	require.Equal(t, r.States(), states)
	require.Empty(t, r.ended)
}

func TestTheEndOfAConversationNamesWhatWasMetAndNotLeft(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := converse(t, reach(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	for _, session := range []uint64{1, 2, 3} {
		_, err := c.Offer(soon(t), offer(session))
		require.NoError(t, err)
	}
	require.NoError(t, c.Leave(2)) // what was said before Close arrives
	require.NoError(t, c.Close())
	_, open := <-c.Changes()
	require.False(t, open)
	require.ErrorIs(t, c.Err(), net.ErrClosed)
	r.await(t, func() bool { return len(r.ended) == 1 })
	require.Equal(t, []uint64{1, 3}, r.ended[0])
	require.Equal(t, []uint64{2}, r.left)
}

func TestAnOfferEndsWithItsContextAndIsLeft(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	answers := make(chan struct{})
	r.meet = func(ctx context.Context, _ string, _ Offer) Answer {
		<-answers
		return Answer{Port: port("mlx5_1"), RC: 2}
	}
	c := converse(t, reach(t, r, "gpu2", credentialsOf(t, "gpu2", key)))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.await(t, func() bool { return len(r.offers) == 1 })
		cancel()
	}()
	_, err := c.Offer(ctx, offer(42))
	require.ErrorIs(t, err, context.Canceled)
	close(answers)
	r.await(t, func() bool { return len(r.left) == 1 && r.left[0] == 42 })
	require.NoError(t, c.Err())
}

func TestAHostThatGoesEndsItsConversationsAndIsReachedAgain(t *testing.T) {
	own := credentialsOf(t, "gpu1", key)
	r := respond(t, "gpu1", own)
	p := reach(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	c := converse(t, p)
	_, err := c.Offer(soon(t), offer(42))
	require.NoError(t, err)
	r.stop()
	for range c.Changes() {
	}
	require.Error(t, c.Err())
	require.Equal(t, [][]uint64{{42}}, r.ended)
	_, err = c.Offer(soon(t), offer(43))
	require.ErrorIs(t, err, c.Err())
	require.Error(t, c.Leave(42))

	for range 5 {
		_, err = p.State(soon(t))
		require.Error(t, err)
		requireOther(t, err)
		_, err = p.Converse(soon(t), "")
		requireOther(t, err)
	}
	respondAt(t, r.addr, "gpu1", own)
	_, err = p.State(soon(t))
	require.NoError(t, err, "the first try after the host is back")
	require.NoError(t, converse(t, p).Err())
}

// requireOther demands an error that says nothing of the peer.
func requireOther(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, known := range []error{ErrKey, ErrNotListed, ErrVersion, ErrMalformed} {
		require.NotErrorIs(t, err, known)
	}
}

func TestAHostWhereNobodyListensIsAnErrorAtOnce(t *testing.T) {
	p := reachAt(t, fabric.Host{Name: "gpu1", Address: closedPort(t)}, "gpu2", credentialsOf(t, "gpu2", key))
	began := time.Now()
	_, err := p.State(soon(t))
	requireOther(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
	t.Log(err)
}

func TestAClosedPeerSaysSo(t *testing.T) {
	r := respond(t, "gpu1", credentialsOf(t, "gpu1", key))
	p := reach(t, r, "gpu2", credentialsOf(t, "gpu2", key))
	c := converse(t, p)
	require.NoError(t, p.Close())
	require.ErrorIs(t, c.Err(), net.ErrClosed)
	_, err := p.State(soon(t))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = p.Converse(soon(t), "")
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, p.Close())
	require.NoError(t, errors.Join(c.Close(), c.Close()))
}
