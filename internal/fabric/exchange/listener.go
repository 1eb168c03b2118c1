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

// Listen returns where a host listens for its peers: addr is the option listen, as ":14791". The error is one line.
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

// userTimeout has the kernel end a connection whose bytes are not acknowledged within the time of a ping: gRPC sets this
// (tcp(7), TCP_USER_TIMEOUT) on connections of package net only. Accepted connections have it of their listener.
func userTimeout(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ownLimits().pingLasts/time.Millisecond))
	})
	return errors.Join(err, failed)
}

// gate lets connections in as the limits say, and closes the others without a byte.
type gate struct {
	net.Listener
	limits limits
	now    func() time.Time
	counts *counters

	mu          sync.Mutex
	rate        *rate.Limiter // of handshakes
	handshaking map[*guest]struct{}
	open        int
	shut        bool
}

func newGate(l net.Listener, lim limits, now func() time.Time, c *counters) *gate {
	return &gate{
		Listener: l, limits: lim, now: now, counts: c, rate: perSecond(lim.handshakes),
		handshaking: map[*guest]struct{}{},
	}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		raw, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &guest{Conn: raw, gate: g}
		if g.admit(c) {
			g.counts.accepted.Add(1)
			return c, nil
		}
		g.counts.refused.Add(1)
		_ = raw.Close() // a stranger's, of which nothing is known
	}
}

func (g *gate) admit(c *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || len(g.handshaking) >= g.limits.handshaking || g.open >= g.limits.connections || !g.rate.AllowN(g.now(), 1) {
		return false
	}
	g.handshaking[c] = struct{}{}
	g.open++
	return true
}

// shutOut ends the handshakes that are under way, for which gRPC would wait, and lets no one in any more.
func (g *gate) shutOut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.handshaking {
		_ = c.Conn.Close() // gRPC closes it again
	}
}

// guest is a connection that was let in.
type guest struct {
	net.Conn
	gate   *gate
	closed bool // guarded by gate.mu
}

// greeted says that the handshake is over. It may be called more than once.
func (c *guest) greeted() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	delete(c.gate.handshaking, c)
}

// Close implements net.Conn.
func (c *guest) Close() error {
	c.greeted()
	c.gate.mu.Lock()
	if !c.closed {
		c.closed = true
		c.gate.open--
	}
	c.gate.mu.Unlock()
	return c.Conn.Close()
}
