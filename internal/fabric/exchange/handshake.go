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

// doorman makes the handshakes of a Server. It implements credentials.TransportCredentials.
type doorman struct {
	server *Server
}

// caller is what a Server knows of the other end of a connection. It implements credentials.AuthInfo.
type caller struct {
	credentials.CommonAuthInfo
	cert   *x509.Certificate
	conn   net.Conn
	states *rate.Limiter // of requests for the state
}

// AuthType implements credentials.AuthInfo.
func (*caller) AuthType() string { return "tls" }

// errStranger ends a connection. No one reads it.
var errStranger = errors.New("no connection of package exchange")

// ServerHandshake implements credentials.TransportCredentials. gRPC has set the deadline.
func (d doorman) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g, ok := raw.(*guest)
	if !ok {
		return nil, nil, errStranger
	}
	defer g.greeted()
	conn := tls.Server(raw, d.server.config.Credentials.server())
	if err := conn.Handshake(); err != nil {
		d.server.counts.strangers.Add(1)
		return nil, nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "h2" || len(state.PeerCertificates) == 0 {
		d.server.counts.strangers.Add(1)
		return nil, nil, errStranger
	}
	c := &caller{cert: state.PeerCertificates[0], conn: raw}
	c.SecurityLevel = credentials.PrivacyAndIntegrity
	c.states = perSecond(d.server.limits.states)
	return conn, c, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (doorman) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errStranger
}

// Info implements credentials.TransportCredentials.
func (doorman) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (d doorman) Clone() credentials.TransportCredentials { return d }

// OverrideServerName implements credentials.TransportCredentials.
func (doorman) OverrideServerName(string) error { return nil }
