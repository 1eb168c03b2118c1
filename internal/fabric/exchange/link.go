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

// link is one connection with a host. When it is lost it does not come back.
type link struct {
	conn *grpc.ClientConn
}

// dial connects to a host and greets it by TLS. It waits for the first byte of the host too: with TLS 1.3 the handshake of
// the client is over before the server has looked at its certificate (RFC 8446, section 2), and a server of HTTP/2
// speaks without being asked (RFC 9113, section 3.4).
func dial(ctx context.Context, address, host string, n *TCP) (*link, error) {
	raw, err := n.config.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	begun, err := introduce(ctx, tls.Client(raw, n.config.Credentials.client(host)))
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, n.config.Credentials.explain(err)
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

// introduce makes a handshake and waits for the first byte after it.
func introduce(ctx context.Context, c *tls.Conn) (*begun, error) {
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
	return &begun{Conn: c, first: first}, err
}

// begun is a connection of which the first bytes have been read.
type begun struct {
	*tls.Conn
	first []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// newLink hands a connection to gRPC, and waits until HTTP/2 is agreed on.
func newLink(ctx context.Context, c *begun, host string, l limits) (*link, error) {
	conn, err := grpc.NewClient("passthrough:///"+host,
		grpc.WithTransportCredentials(introduced{c}), grpc.WithContextDialer(once(c)), grpc.WithAuthority(host),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithMaxHeaderListSize(maxHeader), grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(4*window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: l.pingEvery, Timeout: l.pingLasts, PermitWithoutStream: true}),
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

// once returns a dialer that has this connection to give, and no other.
func once(c net.Conn) func(context.Context, string) (net.Conn, error) {
	var given atomic.Bool
	return func(context.Context, string) (net.Conn, error) {
		if given.Swap(true) {
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

// alive reports whether the connection is not known to be lost.
func (l *link) alive() bool { return l.conn.GetState() == connectivity.Ready }

func (l *link) close() { _ = l.conn.Close() }

// introduced are the credentials of a connection whose handshake is over. It implements credentials.TransportCredentials.
type introduced struct{ conn *begun }

// ClientHandshake implements credentials.TransportCredentials.
func (i introduced) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, credentials.TLSInfo{
		State:          i.conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (introduced) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errStranger
}

// Info implements credentials.TransportCredentials.
func (introduced) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (i introduced) Clone() credentials.TransportCredentials { return i }

// OverrideServerName implements credentials.TransportCredentials.
func (introduced) OverrideServerName(string) error { return nil }
