package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// link is the connection between two hosts, in either direction.
type link [2]string

func linkOf(a, b string) link { return link{min(a, b), max(a, b)} }

// network carries TCP connections in memory. A write never blocks: a goroutine that waited while it holds a mutex would stop the
// clock.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by host
	ends      map[*end]struct{}
	cuts      map[link]int    // faults that swallow all packets of a link
	off       map[string]bool // hosts without power
	reached   map[link]time.Time
}

func newNetwork() *network {
	return &network{
		listeners: map[string]*listener{}, ends: map[*end]struct{}{}, cuts: map[link]int{}, off: map[string]bool{}, reached: map[link]time.Time{},
	}
}

// userTimeout is the time after which a kernel gives up a connection whose bytes are not acknowledged: package exchange sets
// TCP_USER_TIMEOUT to it.
const userTimeout = 5 * time.Second

// blocks reports whether packets between two hosts are lost.
func (n *network) blocks(a, b string) bool { return n.cuts[linkOf(a, b)] > 0 || n.off[a] || n.off[b] }

// unreachableSince reports whether packets between two hosts are lost, or were after a moment.
func (n *network) unreachableSince(a, b string, moment time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.blocks(a, b) || n.reached[linkOf(a, b)].After(moment)
}

// cut loses the packets of some links until heal.
func (n *network) cut(links []link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.cuts[l]++
	}
}

// heal ends a cut. What waits is sent again.
func (n *network) heal(links []link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.cuts[l]--
		n.reached[l] = time.Now()
	}
	n.resend()
}

// reset ends the connections of some links at both ends.
func (n *network) reset(links []link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.reached[l] = time.Now()
		for e := range n.ends {
			if linkOf(e.from, e.to) == l {
				e.fail(syscall.ECONNRESET)
			}
		}
	}
}

// power switches a host off or on. Its connections are not closed in order, but are unknown when it is back.
func (n *network) power(host string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[host] = !on
	for e := range n.ends {
		if !on && e.from == host {
			e.closed = true
			e.fail(syscall.ECONNRESET)
		}
	}
	n.resend()
}

// closeAll closes the listener and all connections of a host, as the kernel does when their process ends.
func (n *network) closeAll(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.listeners[host]; l != nil {
		l.close()
	}
	for e := range n.ends {
		if e.from == host {
			e.close()
		}
	}
}

func (n *network) resend() {
	for e := range n.ends {
		if e.unacked != nil && !n.blocks(e.from, e.to) {
			e.unacked.Stop()
			e.unacked = nil
			held, fin := e.held, e.heldFin
			e.held, e.heldFin = nil, false
			e.send(held, fin)
		}
	}
}

// dial connects one host to another.
func (n *network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	to, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for wait := time.Second; ; wait *= 2 { // a kernel repeats its SYN
		c, err := n.connect(from, to)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// connect returns a connection, or neither it nor an error if nothing comes back.
func (n *network) connect(from, to string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to]
	switch {
	case n.blocks(from, to):
		return nil, nil
	case l == nil:
		return nil, syscall.ECONNREFUSED
	}
	a, b := n.newEnd(from, to), n.newEnd(to, from)
	a.peer, b.peer = b, a
	select {
	case l.waiting <- b:
		return a, nil
	default:
		return nil, errors.New("too many connections wait")
	}
}

func (n *network) newEnd(from, to string) *end {
	e := &end{n: n, from: from, to: to}
	e.changed.L = &n.mu
	n.ends[e] = struct{}{}
	return e
}

// end is one end of a connection. It implements net.Conn. network.mu guards it.
type end struct {
	n        *network
	from, to string
	peer     *end
	changed  sync.Cond

	in        []byte
	fin       bool  // the peer has closed
	err       error // the kernel has given up the connection
	closed    bool
	held      []byte // not acknowledged
	heldFin   bool
	unacked   *time.Timer
	readUntil deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

// Read implements net.Conn.
func (e *end) Read(p []byte) (int, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	for {
		switch d := e.readUntil.at; {
		case e.closed:
			return 0, net.ErrClosed
		case !d.IsZero() && !time.Now().Before(d):
			return 0, os.ErrDeadlineExceeded
		case len(e.in) > 0:
			n := copy(p, e.in)
			e.in = e.in[n:]
			return n, nil
		case e.err != nil:
			return 0, e.err
		case e.fin:
			return 0, io.EOF
		}
		e.changed.Wait()
	}
}

// Write implements net.Conn.
func (e *end) Write(p []byte) (int, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.err != nil:
		return 0, e.err
	}
	e.send(p, false)
	return len(p), nil
}

// send delivers bytes, or holds them while the packets are lost.
func (e *end) send(p []byte, fin bool) {
	switch other := e.peer; {
	case e.err != nil:
	case e.n.blocks(e.from, e.to):
		e.held, e.heldFin = append(e.held, p...), e.heldFin || fin
		if e.unacked == nil {
			e.unacked = time.AfterFunc(userTimeout, e.expire)
		}
	case other.closed || other.err != nil:
		e.fail(syscall.ECONNRESET)
	default:
		other.in, other.fin = append(other.in, p...), other.fin || fin
		other.changed.Broadcast()
	}
}

func (e *end) expire() {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.unacked != nil {
		e.fail(syscall.ETIMEDOUT)
	}
}

// fail ends the connection at this end.
func (e *end) fail(err error) {
	if e.unacked != nil {
		e.unacked.Stop()
		e.unacked = nil
	}
	e.err, e.held = err, nil
	e.changed.Broadcast()
	e.forget()
}

func (e *end) close() {
	if !e.closed {
		e.closed = true
		e.send(nil, true)
		e.changed.Broadcast()
	}
	e.forget()
}

// forget removes an end that can neither receive nor send any more.
func (e *end) forget() {
	if (e.closed || e.err != nil) && e.unacked == nil {
		delete(e.n.ends, e)
	}
}

// Close implements net.Conn.
func (e *end) Close() error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	e.close()
	return nil
}

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(at time.Time) error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.readUntil.timer != nil {
		e.readUntil.timer.Stop()
	}
	e.readUntil = deadline{at: at}
	if !at.IsZero() {
		e.readUntil.timer = time.AfterFunc(time.Until(at), func() {
			e.n.mu.Lock()
			defer e.n.mu.Unlock()
			e.changed.Broadcast()
		})
	}
	e.changed.Broadcast()
	return nil
}

// SetDeadline implements net.Conn. A write does not block.
func (e *end) SetDeadline(at time.Time) error { return e.SetReadDeadline(at) }

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return address(e.from) }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return address(e.to) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

// listener implements net.Listener.
type listener struct {
	n       *network
	host    string
	waiting chan *end
	ended   chan struct{}
}

func (n *network) listen(host string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{n: n, host: host, waiting: make(chan *end, 256), ended: make(chan struct{})}
	n.listeners[host] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.ended:
		return nil, net.ErrClosed
	case c := <-l.waiting:
		return c, nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.close()
	return nil
}

func (l *listener) close() {
	if l.n.listeners[l.host] != l {
		return
	}
	delete(l.n.listeners, l.host)
	close(l.ended)
	for {
		select {
		case c := <-l.waiting:
			c.close()
		default:
			return
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(l.host) }
