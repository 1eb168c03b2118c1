package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/fabric/pinglist"
)

// requireKey requires that both methods of a peer fail with ErrKey, and that the Handler is not called.
func requireKey(t *testing.T, r *responder, p Peer) {
	t.Helper()
	_, err := p.Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrKey)
	t.Log(err)
	_, err = p.State(testContext(t), nil)
	require.ErrorIs(t, err, ErrKey)
	require.Empty(t, r.ended)
	require.Zero(t, r.server.Counts().Conversed)
}

func TestAHostOfAnotherKeyIsRefused(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	requireKey(t, r, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", otherKey)))
	require.Eventually(t, func() bool { return r.server.Counts().Strangers == 2 }, 20*time.Second, time.Millisecond)
}

// trustKeys returns credentials that also accept the authorities of other keys.
func trustKeys(t *testing.T, c *Credentials, keys ...string) *Credentials {
	t.Helper()
	both := *c
	h := c.current()
	h.roots = h.roots.Clone()
	for _, k := range keys {
		root, _, err := deriveAuthority([]byte(k))
		require.NoError(t, err)
		h.roots.AddCert(root)
	}
	both.current = func() tlsIdentity { return h }
	return &both
}

func TestAHostThatIsRefusedByItsPeerAloneLearnsOfTheKeyToo(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := trustKeys(t, credentialsOf(t, "gpu2", otherKey), key)
	c.certName = func(host string) string { return hostAlias([]byte(key), host) }
	requireKey(t, r, newPeer(t, r, "gpu2", c))
}

func TestAHostThatAcceptsAnotherKeyIsRefusedByItsCaller(t *testing.T) {
	r := startResponder(t, "gpu1", trustKeys(t, credentialsOf(t, "gpu1", key), otherKey))
	requireKey(t, r, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", otherKey)))
}

func TestAHostAtTheAddressOfAnotherIsRefused(t *testing.T) {
	r := startResponder(t, "gpu9", credentialsOf(t, "gpu9", key))
	requireKey(t, r, newPeerAt(t, pinglist.Host{Name: "gpu1", Address: r.addr}, "gpu2", credentialsOf(t, "gpu2", key)))
}

// Names that differ only in case are different names: the list may have both.
func TestANameOfAnotherCaseIsAnotherHost(t *testing.T) {
	r := startResponder(t, "GPU1", credentialsOf(t, "GPU1", key))
	requireKey(t, r, newPeerAt(t, pinglist.Host{Name: "gpu1", Address: r.addr}, "gpu2", credentialsOf(t, "gpu2", key)))
}

func TestAStrangerGetsNoHello(t *testing.T) {
	stray := credentialsOf(t, "gpu1", otherKey).current().cert
	rows := map[string]func(*tls.Config){
		"no certificate":                 nil,
		"a certificate of another key":   func(c *tls.Config) { c.Certificates = []tls.Certificate{stray} },
		"TLS 1.2":                        func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"another protocol above TLS":     func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
		"no protocol above TLS is named": func(c *tls.Config) { c.NextProtos = nil },
	}
	for name, change := range rows {
		t.Run(name, func(t *testing.T) {
			r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
			c, names := handshakeAs(t, r.addr, change)
			err := c.HandshakeContext(testContext(t))
			if err == nil {
				var got []byte
				got, err = io.ReadAll(c)
				require.Empty(t, got)
			}
			_, isAlert := remoteAlert(err)
			require.True(t, isAlert, "%v", err)
			for _, name := range *names {
				require.NotContains(t, name, "gpu1")
			}
			require.Eventually(t, func() bool { return r.server.Counts().Strangers == 1 }, 20*time.Second, time.Millisecond)
			require.Zero(t, r.server.Counts().Conversed)
		})
	}
}

func TestGarbageGetsNothingButAnAlert(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	for _, garbage := range []string{
		"GET / HTTP/1.1\r\nHost: gpu1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x16\x03\x01\xff\xff", "\x00\n\n\n\n\n",
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
	} {
		c := dialRaw(t, r.addr)
		_, err := c.Write([]byte(garbage))
		require.NoError(t, err)
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		got, _ := io.ReadAll(c) // a reset is acceptable too
		if len(got) > 0 {
			require.Len(t, got, 7, "%q got %q", garbage, got)
			require.EqualValues(t, 21, got[0], "the type of an alert's record")
		}
	}
	require.Equal(t, Counts{Accepted: 5, Strangers: 5}, r.server.Counts())
}

func TestAHandshakeThatNeverEndsIsEnded(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	c := dialRaw(t, r.addr)
	began := time.Now()
	got, err := io.ReadAll(c)
	took := time.Since(began)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Less(t, took, 10*defaultLimits().handshakeTimeout)
	t.Logf("a connection without a byte was closed after %v", took)
}

// Sending a byte from time to time does not prolong a handshake.
func TestAHandshakeThatGoesOnSlowlyIsEnded(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.handshakeTimeout = 200 * time.Millisecond })
	c := dialRaw(t, r.addr)
	began := time.Now()
	for i := 0; ; i++ {
		if _, err := c.Write([]byte("\x16\x03\x01\x40\x00")[min(i, 4):][:1]); err != nil {
			break
		}
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			break
		}
		require.Less(t, time.Since(began), 20*time.Second)
	}
	t.Logf("a connection with a byte each 20 ms was closed after %v", time.Since(began))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// stoppedClock is a clock that only a test advances.
type stoppedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (s *stoppedClock) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stoppedClock) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func TestMoreHandshakesASecondAreClosedWithoutAByte(t *testing.T) {
	clock := &stoppedClock{now: time.Unix(1000, 0)}
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.config.Now = clock.Now })
	admitted := func() (n int) {
		for range 30 {
			c, _ := handshakeAs(t, r.addr, nil)
			rec := &recordingReader{Conn: c.NetConn()}
			if c = tls.Client(rec, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); c.HandshakeContext(testContext(t)) == nil {
				n++
			} else {
				require.Empty(t, rec.received)
			}
			_ = rec.Close()
		}
		return n
	}
	require.Equal(t, 10, admitted())
	clock.advance(time.Second)
	require.Equal(t, 10, admitted())
	clock.advance(time.Second / 2)
	require.Equal(t, 5, admitted())
	clock.advance(time.Hour)
	require.Equal(t, 10, admitted(), "a pause admits no more at once")
	require.Equal(t, Counts{Accepted: 35, Refused: 85, Strangers: 35}, r.server.Counts())
}

func TestMoreThan64HandshakesUnderWayAreClosedWithoutAByte(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) {
		s.limits.handshakes = 1000
		s.limits.handshakeTimeout = time.Minute
	})
	var open []net.Conn
	for range 64 {
		open = append(open, dialRaw(t, r.addr))
	}
	got, err := io.ReadAll(dialRaw(t, r.addr))
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, Counts{Accepted: 64, Refused: 1}, r.server.Counts())

	require.NoError(t, open[0].Close())
	require.Eventually(t, func() bool {
		p := newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key))
		_, err := p.State(testContext(t), nil)
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "one that ends makes room")
}

// A Server with 64 unfinished handshakes stops at once.
func TestAServerDoesNotWaitForHandshakesToEnd(t *testing.T) {
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key), func(s *Server) { s.limits.handshakeTimeout = time.Hour })
	for range 10 {
		dialRaw(t, r.addr)
	}
	require.Eventually(t, func() bool { return r.server.Counts().Accepted == 10 }, 20*time.Second, time.Millisecond)
	r.stop()
}

func TestAServerThatIsStoppedBeforeItServesReturns(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := NewServer(ServerConfig{Host: "gpu1", Credentials: credentialsOf(t, "gpu1", key), Handler: newFakeHandler(), Now: time.Now})
	require.NoError(t, s.Serve(ctx, l))
}

func TestAListenerThatFailsEndsTheServer(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	s := NewServer(ServerConfig{Host: "gpu1", Credentials: credentialsOf(t, "gpu1", key), Handler: newFakeHandler(), Now: time.Now})
	require.ErrorIs(t, s.Serve(t.Context(), l), net.ErrClosed)
}

func TestAnAddressThatIsTakenIsALine(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for addr, want := range map[string]string{
		l.Addr().String(): "address already in use", "127.0.0.1": "missing port in address", "127.0.0.1:70000": "invalid port",
	} {
		_, err = Listen(t.Context(), addr)
		require.ErrorContains(t, err, `listen = "`+addr+`": `)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
}
