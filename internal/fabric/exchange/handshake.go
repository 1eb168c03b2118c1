package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// serverHandshaker performs the handshakes of a Server. It implements credentials.TransportCredentials.
type serverHandshaker struct {
	server *Server
}

// caller describes the other end of a Server's connection. It implements credentials.AuthInfo.
type caller struct {
	credentials.CommonAuthInfo
	cert   *x509.Certificate
	conn   net.Conn
	states *rate.Limiter // of requests for the state
}

// AuthType implements credentials.AuthInfo.
func (*caller) AuthType() string { return "tls" }

// errNotOurs ends a connection that does not belong to this package. Nobody reads its text.
var errNotOurs = errors.New("no connection of package exchange")

// ServerHandshake implements credentials.TransportCredentials. gRPC has already set the deadline.
func (d serverHandshaker) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g, ok := raw.(*limitedConn)
	if !ok {
		return nil, nil, errNotOurs
	}
	defer g.handshakeDone()
	conn := tls.Server(raw, d.server.config.Credentials.serverConfig())
	if err := conn.Handshake(); err != nil {
		d.server.counts.strangers.Add(1)
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "h2" || len(state.PeerCertificates) == 0 {
		d.server.counts.strangers.Add(1)
		return nil, nil, errNotOurs
	}
	c := &caller{cert: state.PeerCertificates[0], conn: raw}
	c.SecurityLevel = credentials.PrivacyAndIntegrity
	c.states = perSecond(d.server.limits.states)
	return conn, c, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (serverHandshaker) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNotOurs
}

// Info implements credentials.TransportCredentials.
func (serverHandshaker) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (d serverHandshaker) Clone() credentials.TransportCredentials { return d }

// OverrideServerName implements credentials.TransportCredentials.
func (serverHandshaker) OverrideServerName(string) error { return nil }
