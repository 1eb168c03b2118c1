package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// link is one connection to a host. It does not reconnect.
type link struct {
	conn *grpc.ClientConn
}

// dialHost connects to a host and performs the TLS handshake. It also waits for the first byte from the host: in TLS 1.3, the client's
// handshake ends before the server has verified the client's certificate (RFC 8446, section 2), and an HTTP/2 server sends data without a
// request (RFC 9113, section 3.4).
func dialHost(ctx context.Context, address, host string, n *TCP) (*link, error) {
	raw, err := n.config.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	begun, err := completeHandshake(ctx, tls.Client(raw, n.config.Credentials.clientConfig(host)))
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, n.config.Credentials.handshakeError(err)
	}
	l, err := newLink(ctx, begun, host, n.limits)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return l, nil
}

// dialTCP connects to an address over TCP.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Control: userTimeout}).DialContext(ctx, "tcp", address)
}

// completeHandshake performs a TLS handshake and reads the first byte after it.
func completeHandshake(ctx context.Context, c *tls.Conn) (*startedConn, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if c.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.New("the host does not speak HTTP/2")
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	first := make([]byte, 1)
	_, err := c.Read(first)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	return &startedConn{Conn: c, first: first}, err
}

// startedConn is a connection from which the first byte has already been read. Read returns that byte again.
type startedConn struct {
	*tls.Conn
	first []byte
}

// Read implements net.Conn.
func (b *startedConn) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// newLink passes a connection to gRPC and waits until gRPC can use it.
func newLink(ctx context.Context, c *startedConn, host string, l limits) (*link, error) {
	conn, err := grpc.NewClient("passthrough:///"+host,
		grpc.WithTransportCredentials(finishedHandshake{c}), grpc.WithContextDialer(dialOnce(c)), grpc.WithAuthority(host),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeader), grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(4*window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: l.pingEvery, Timeout: l.pingTimeout, PermitWithoutStream: true}),
	)
	if err != nil {
		return nil, fmt.Errorf("use the connection: %w", err)
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure || !conn.WaitForStateChange(ctx, state) {
			_ = conn.Close()
			return nil, errors.Join(ctx.Err(), errors.New("the host does not speak HTTP/2"))
		}
	}
	return &link{conn}, nil
}

// dialOnce returns a dialer that returns c once, and net.ErrClosed afterwards.
func dialOnce(c net.Conn) func(context.Context, string) (net.Conn, error) {
	var given atomic.Bool
	return func(context.Context, string) (net.Conn, error) {
		if given.Swap(true) {
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// isReady reports whether the connection is usable as far as gRPC knows.
func (l *link) isReady() bool { return l.conn.GetState() == connectivity.Ready }

func (l *link) close() { _ = l.conn.Close() }

// finishedHandshake has the credentials of a connection whose handshake has ended. It implements credentials.TransportCredentials.
type finishedHandshake struct{ conn *startedConn }

// ClientHandshake implements credentials.TransportCredentials.
func (i finishedHandshake) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, credentials.TLSInfo{
		State:          i.conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (finishedHandshake) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNotOurs
}

// Info implements credentials.TransportCredentials.
func (finishedHandshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (i finishedHandshake) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials.
func (finishedHandshake) OverrideServerName(string) error { return nil }
