package exchange

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"rdma_events/internal/fabric/exchange/proto"
)

// rawClient returns a plain gRPC client, which can send messages that TCP never sends. Its flow-control windows are fixed.
func rawClient(t *testing.T, r *responder, c *Credentials) proto.HelloClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(credentials.NewTLS(c.clientConfig(r.name))),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return proto.NewHelloClient(conn)
}

// rawStream opens a stream without a greeting.
func rawStream(t *testing.T, client proto.HelloClient) grpc.BidiStreamingClient[proto.Call, proto.Reply] {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s, err := client.Converse(ctx)
	require.NoError(t, err)
	return s
}

// rawGreet opens a stream and greets.
func rawGreet(t *testing.T, client proto.HelloClient, host string) grpc.BidiStreamingClient[proto.Call, proto.Reply] {
	t.Helper()
	s := rawStream(t, client)
	require.NoError(t, s.Send(greetingCall(ownVersions.newGreeting(host, "00"))))
	m, err := s.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 1, m.GetGreeting().GetVersion())
	return s
}

func greetingCall(g *proto.Greeting) *proto.Call {
	return &proto.Call{What: &proto.Call_Greeting{Greeting: g}}
}

func offerCall(o Offer) *proto.Call {
	return &proto.Call{What: &proto.Call_Offer{Offer: offerToProto(o)}}
}

// fake is a plain gRPC server, which can send messages that a Server never sends.
type fake struct {
	proto.UnimplementedHelloServer
	converse func(stream) error
	state    func() (*proto.StateReply, error)
}

func (f *fake) Converse(s stream) error { return f.converse(s) }

func (f *fake) State(context.Context, *proto.StateRequest) (*proto.StateReply, error) {
	return f.state()
}

// serve starts a fake as a host.
func (f *fake) serve(t *testing.T, name string, c *Credentials) *responder {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(c.serverConfig())), grpc.WaitForHandlers(true))
	proto.RegisterHelloServer(g, f)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-served)
	})
	return &responder{name: name, addr: l.Addr().String()}
}

// dialRaw opens a TCP connection with a deadline for reads.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// recordingReader records the bytes that a connection receives.
type recordingReader struct {
	net.Conn
	received []byte
}

func (r *recordingReader) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.received = append(r.received, p[:n]...)
	return n, err
}

// handshakeAs performs a handshake without verifying the server. It returns the connection and the names in the server's certificate.
func handshakeAs(t *testing.T, addr string, change func(*tls.Config)) (*tls.Conn, *[]string) {
	t.Helper()
	var names []string
	config := &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS10,
		VerifyConnection: func(s tls.ConnectionState) error {
			names = append(names, s.PeerCertificates[0].DNSNames...)
			names = append(names, s.PeerCertificates[0].Subject.String())
			return nil
		},
	}
	if change != nil {
		change(config)
	}
	return tls.Client(dialRaw(t, addr), config), &names
}
