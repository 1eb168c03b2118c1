package exchange

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"rdma_events/internal/fabric/exchange/proto"
)

// ServerConfig is the configuration of a Server.
type ServerConfig struct {
	Host        string // of this host in the list
	Credentials *Credentials
	Handler     Handler
	Now         func() time.Time
}

// Server answers other hosts. Its methods may be called concurrently.
type Server struct {
	proto.UnimplementedHelloServer
	config ServerConfig
	limits limits
	speaks versions
	counts counters

	mu    sync.Mutex
	talks map[*talk]struct{} // those that were greeted
	of    map[string]int     // talks of each host
	wg    sync.WaitGroup     // of goroutines that read
}

// NewServer returns a Server that does not listen yet.
func NewServer(c ServerConfig) *Server {
	return &Server{config: c, limits: ownLimits(), speaks: ownVersions, talks: map[*talk]struct{}{}, of: map[string]int{}}
}

// Serve answers peers that connect to l until ctx ends, and then nil; or until l fails. It closes l. When it returns, the
// methods of the Handler have, and so have all goroutines.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := s.grpcServer()
	door := newGate(l, s.limits, s.config.Now, &s.counts)
	var stopping sync.WaitGroup
	over := make(chan struct{})
	stopping.Go(func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		door.shutOut()
		g.Stop()
	})
	err := g.Serve(door)
	close(over)
	stopping.Wait()
	s.wg.Wait()
	if ctx.Err() == nil {
		return fmt.Errorf("listen for other hosts: %w", err)
	}
	return nil
}

func (s *Server) grpcServer() *grpc.Server {
	l := s.limits
	g := grpc.NewServer(
		grpc.Creds(doorman{s}), grpc.ConnectionTimeout(l.handshakeLasts), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(l.concurrentCalls),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(4*window),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: l.idle, Time: l.pingEvery, Timeout: l.pingLasts}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: l.pingEvery / 2, PermitWithoutStream: true}),
	)
	proto.RegisterHelloServer(g, s)
	return g
}

// Changed has all hosts with an open conversation know of a change of a port. It does not block: a conversation whose host
// does not read ends.
func (s *Server) Changed(c Change) {
	m := &proto.Reply{What: &proto.Reply_Change{Change: changeToProto(c)}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.talks {
		select {
		case t.out <- m:
		default:
			t.drop()
		}
	}
}

// Relisted ends the conversations with hosts that the Handler does not list any more. It does not block.
func (s *Server) Relisted() {
	for _, t := range s.openTalks() {
		if _, ok := s.config.Handler.Listed(t.host); !ok {
			t.cancel()
		}
	}
}

// openTalks returns the talks that are open. The Handler must not be called under s.mu: it holds its own lock when it calls Changed.
func (s *Server) openTalks() []*talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.talks))
}

// Counts returns what was counted.
func (s *Server) Counts() Counts { return s.counts.counts() }

// State implements proto.HelloServer.
func (s *Server) State(ctx context.Context, m *proto.StateRequest) (*proto.StateReply, error) {
	s.countUnknown(m)
	if err := checkSessions(m.GetSessions()); err != nil {
		s.counts.malformed.Add(1)
		return nil, refusal(proto.Why_WHY_GREETING)
	}
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.admit(c, m.GetHost()); err != nil {
		return nil, err
	}
	if err := s.pace(ctx, c.states); err != nil {
		return nil, err
	}
	return statesToProto(s.config.Handler.States(m.GetHost(), m.GetSessions())), nil
}

// admit returns the digest for a caller that has proven this name and is in the list, or why it is refused.
func (s *Server) admit(c *caller, host string) (digest string, err error) {
	if !s.config.Credentials.prove(c.cert, host) {
		s.counts.unmet.Add(1)
		return "", refusal(proto.Why_WHY_NAME)
	}
	digest, ok := s.config.Handler.Listed(host)
	if !ok {
		s.counts.unmet.Add(1)
		return "", refusal(proto.Why_WHY_NOT_LISTED)
	}
	return digest, nil
}

// pace waits until a limiter admits one more message by the clock of the configuration, or ctx ends.
func (s *Server) pace(ctx context.Context, l *rate.Limiter) error {
	for {
		now := s.config.Now()
		reservation := l.ReserveN(now, 1)
		wait := reservation.DelayFrom(now)
		if wait == 0 {
			return nil
		}
		reservation.CancelAt(now)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

func (s *Server) countUnknown(m message) {
	if hasUnknown(m.ProtoReflect()) {
		s.counts.unknown.Add(1)
	}
}

func callerOf(ctx context.Context) (*caller, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*caller); ok {
			return c, nil
		}
	}
	return nil, grpcstatus.Error(codes.Unauthenticated, "no certificate")
}
