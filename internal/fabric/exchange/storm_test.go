package exchange

import (
	"errors"
	"flag"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/fabric/pinglist"
)

// openMany lets each of the callers open a conversation, atOnce of them concurrently, and returns the number of successes. The errors of
// the others must not be ErrKey.
func openMany(t *testing.T, r *responder, c *Credentials, callers, atOnce int) (greeted int) {
	t.Helper()
	n := New(NetworkConfig{Host: "gpu2", Credentials: c})
	var next, ok atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for next.Add(1) <= int64(callers) {
				if tryConversation(t, n, r) {
					ok.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(ok.Load())
}

func tryConversation(t *testing.T, n *TCP, r *responder) bool {
	p, err := n.Peer(pinglist.Host{Name: r.name, Address: r.addr})
	if err != nil {
		t.Error(err)
		return false
	}
	defer p.Close()
	c, err := p.Converse(testContext(t), "")
	if err != nil {
		if errors.Is(err, ErrKey) || errors.Is(err, ErrNotListed) || errors.Is(err, ErrVersion) {
			t.Error(err)
		}
		return false
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// answerOnce lets a server answer one call, so that all its permanent goroutines exist.
func answerOnce(t *testing.T, r *responder, c *Credentials) {
	t.Helper()
	p := newPeer(t, r, "gpu2", c)
	_, err := p.State(testContext(t), nil)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

var callers = flag.Int("storm.callers", 1000, "callers of a storm")

// After the restart of a leaf switch, all hosts connect at once. The server enforces its limits, and the refused hosts retry.
func TestAStormOfGreetingsIsHeldToTheLimits(t *testing.T) {
	callers := *callers
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := credentialsOf(t, "gpu2", key)
	answerOnce(t, r, c)
	before, running := goleak.IgnoreCurrent(), runtime.NumGoroutine()
	began := time.Now()
	greeted := openMany(t, r, c, callers, 64)
	took := time.Since(began)
	counts := r.server.Counts()
	t.Logf("%d in %v: %d greeted, %d accepted, %d refused", callers, took.Round(time.Millisecond), greeted, counts.Accepted, counts.Refused)
	require.EqualValues(t, callers+1, counts.Accepted+counts.Refused)
	require.LessOrEqual(t, counts.Accepted, uint64(10+10*(took.Seconds()+1)))
	require.GreaterOrEqual(t, greeted, 1)
	require.LessOrEqual(t, greeted, int(counts.Accepted))
	goleak.VerifyNone(t, before)
	t.Logf("%d goroutines before, %d after", running, runtime.NumGoroutine())
	require.Eventually(t, func() bool {
		_, err := newPeer(t, r, "gpu2", c).State(testContext(t), nil)
		return err == nil
	}, 20*time.Second, 100*time.Millisecond, "it answers as before")
}

// Without the limit of handshakes, all callers succeed.
func TestAStormOfConversationsLeavesNothing(t *testing.T) {
	callers := *callers / 10
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) {
		s.limits.handshakes, s.limits.perHost, s.limits.handshakeTimeout = 1_000_000, 1000, time.Minute
	})
	c := credentialsOf(t, "gpu2", key)
	answerOnce(t, r, c)
	before, running := goleak.IgnoreCurrent(), runtime.NumGoroutine()
	began := time.Now()
	require.Equal(t, callers, openMany(t, r, c, callers, 32))
	t.Logf("%d conversations in %v", callers, time.Since(began).Round(time.Millisecond))
	require.Equal(t, Counts{Accepted: uint64(callers) + 1, Conversed: uint64(callers)}, r.server.Counts())
	r.await(t, func() bool { return len(r.ended) == callers })
	goleak.VerifyNone(t, before)
	t.Logf("%d goroutines before, %d after", running, runtime.NumGoroutine())
	require.Empty(t, r.server.conversations)
	require.Empty(t, r.server.perHost)
}

// lossyNetwork is a network between two hosts that can silently discard all data.
type lossyNetwork struct {
	net.Listener
	to   string
	lost chan struct{}
	wg   sync.WaitGroup
}

func newLossyNetwork(t *testing.T, to string) *lossyNetwork {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &lossyNetwork{Listener: l, to: to, lost: make(chan struct{})}
	h.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() { h.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		h.wg.Wait()
	})
	return h
}

func (h *lossyNetwork) pass(a net.Conn) {
	defer a.Close()
	b, err := net.Dial("tcp", h.to)
	if err != nil {
		return
	}
	defer b.Close()
	var both sync.WaitGroup
	both.Go(func() { h.copy(a, b); _ = a.Close() })
	both.Go(func() { h.copy(b, a); _ = b.Close() })
	both.Wait()
}

// copy forwards bytes, or discards them after the network was cut, until the sender closes its side.
func (h *lossyNetwork) copy(to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-h.lost:
			if err != nil {
				_, _ = io.Copy(io.Discard, to) // until the other side has closed too
				return
			}
		default:
			if err != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func TestAPeerThatIsLostWithoutAWordIsNoticed(t *testing.T) {
	t.Parallel() // gRPC's shortest ping interval is 10 s
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	h := newLossyNetwork(t, r.addr)
	p := newPeerAt(t, pinglist.Host{Name: "gpu1", Address: h.Addr().String()}, "gpu2", credentialsOf(t, "gpu2", key))
	c := mustConverse(t, p)
	_, err := c.Offer(testContext(t), newOffer(42))
	require.NoError(t, err)
	close(h.lost)
	began := time.Now()
	for range c.Changes() {
	}
	require.Error(t, c.Err())
	l := defaultLimits()
	require.Less(t, time.Since(began), 10*(l.pingEvery+l.pingTimeout))
	t.Logf("the caller noticed after %v: %v", time.Since(began).Round(time.Millisecond), c.Err())
	late := time.After(10 * (l.pingEvery + l.pingTimeout))
	for ended := false; !ended; {
		select {
		case <-r.changed:
		case <-late:
			require.FailNow(t, "the host has not noticed")
		}
		r.mu.Lock()
		ended = len(r.ended) == 1
		r.mu.Unlock()
	}
	t.Logf("the host noticed after %v", time.Since(began).Round(time.Millisecond))
	require.Equal(t, [][]uint64{{42}}, r.ended)
}
