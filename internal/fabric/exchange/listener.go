package exchange

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Listen returns the listener for peers. addr is the value of the option listen, such as ":14791". The error is one line.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	c := net.ListenConfig{Control: userTimeout}
	l, err := c.Listen(ctx, "tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("listen = %q: %w: want [host]:port that is free", addr, err)
	}
	return l, nil
}

// userTimeout lets the kernel end a connection whose bytes are not acknowledged within the timeout of a ping (tcp(7), TCP_USER_TIMEOUT).
// gRPC sets this only on connections of package net. Accepted connections inherit it from their listener.
func userTimeout(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(defaultLimits().pingTimeout/time.Millisecond))
	})
	return errors.Join(err, failed)
}

// limitedListener accepts connections within the limits. It closes other connections without sending a byte.
type limitedListener struct {
	net.Listener
	limits limits
	now    func() time.Time
	counts *counters

	mu          sync.Mutex
	rate        *rate.Limiter // of handshakes
	handshaking map[*limitedConn]struct{}
	open        int
	closed      bool
}

func newLimitedListener(l net.Listener, lim limits, now func() time.Time, c *counters) *limitedListener {
	return &limitedListener{
		Listener: l, limits: lim, now: now, counts: c, rate: perSecond(lim.handshakes),
		handshaking: map[*limitedConn]struct{}{},
	}
}

// Accept implements net.Listener.
func (g *limitedListener) Accept() (net.Conn, error) {
	for {
		raw, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: raw, gate: g}
		if g.admit(c) {
			g.counts.accepted.Add(1)
			return c, nil
		}
		g.counts.refused.Add(1)
		_ = raw.Close() // nothing is known about the caller
	}
}

func (g *limitedListener) admit(c *limitedConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.handshaking) >= g.limits.concurrentHandshakes || g.open >= g.limits.connections || !g.rate.AllowN(g.now(), 1) {
		return false
	}
	g.handshaking[c] = struct{}{}
	g.open++
	return true
}

// refuseNew ends the handshakes that are under way, for which gRPC would wait, and refuses all new connections.
func (g *limitedListener) refuseNew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for c := range g.handshaking {
		_ = c.Conn.Close() // gRPC closes it again
	}
}

// limitedConn is an accepted connection of a limitedListener.
type limitedConn struct {
	net.Conn
	gate   *limitedListener
	closed bool // guarded by gate.mu
}

// handshakeDone records the end of the handshake. It may be called more than once.
func (c *limitedConn) handshakeDone() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	delete(c.gate.handshaking, c)
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.handshakeDone()
	c.gate.mu.Lock()
	if !c.closed {
		c.closed = true
		c.gate.open--
	}
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
