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
	Host        string // this host's name in the list
	Credentials *Credentials
	Handler     Handler
	Now         func() time.Time
}

// Server answers other hosts. Its methods may be called concurrently.
type Server struct {
	proto.UnimplementedHelloServer
	config   ServerConfig
	limits   limits
	versions versions
	counts   counters

	mu            sync.Mutex
	conversations map[*serverConversation]struct{} // conversations after the greeting
	perHost       map[string]int                   // number of conversations by host
	readers       sync.WaitGroup                   // of goroutines that read from streams
}

// NewServer returns a Server. It does not listen before Serve.
func NewServer(c ServerConfig) *Server {
	return &Server{config: c, limits: defaultLimits(), versions: ownVersions, conversations: map[*serverConversation]struct{}{}, perHost: map[string]int{}}
}

// Serve answers peers that connect to l. It returns nil when ctx ends, or an error if l fails. It closes l. When it returns, all calls of
// the Handler have returned and all goroutines have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	g := s.grpcServer()
	door := newLimitedListener(l, s.limits, s.config.Now, &s.counts)
	var stopping sync.WaitGroup
	over := make(chan struct{})
	stopping.Go(func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		door.refuseNew()
		g.Stop()
	})
	err := g.Serve(door)
	close(over)
	stopping.Wait()
	s.readers.Wait()
	if ctx.Err() == nil {
		return fmt.Errorf("listen for other hosts: %w", err)
	}
	return nil
}

func (s *Server) grpcServer() *grpc.Server {
	l := s.limits
	g := grpc.NewServer(
		grpc.Creds(serverHandshaker{s}), grpc.ConnectionTimeout(l.handshakeTimeout), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(l.concurrentCalls),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(4*window),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: l.idle, Time: l.pingEvery, Timeout: l.pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: l.pingEvery / 2, PermitWithoutStream: true}),
	)
	proto.RegisterHelloServer(g, s)
	return g
}

// AnnounceChange sends a change of a port to all hosts with an open conversation. It does not block: if a host does not read, its
// conversation ends.
func (s *Server) AnnounceChange(c Change) {
	m := &proto.Reply{What: &proto.Reply_Change{Change: changeToProto(c)}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.conversations {
		select {
		case t.replies <- m:
		default:
			t.cancelUnread()
		}
	}
}

// EndUnlisted ends the conversations with hosts that the Handler no longer lists. It does not block.
func (s *Server) EndUnlisted() {
	for _, t := range s.openConversations() {
		if _, ok := s.config.Handler.Listed(t.host); !ok {
			t.cancel()
		}
	}
}

// openConversations returns the open conversations. The Handler must not be called with s.mu held, because it calls AnnounceChange with its
// own lock held.
func (s *Server) openConversations() []*serverConversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conversations))
}

// Counts returns the counts of the Server.
func (s *Server) Counts() Counts { return s.counts.load() }

// State implements proto.HelloServer.
func (s *Server) State(ctx context.Context, m *proto.StateRequest) (*proto.StateReply, error) {
	s.countUnknown(m)
	if err := checkSessions(m.GetSessions()); err != nil {
		s.counts.malformed.Add(1)
		return nil, newRefusal(proto.Why_WHY_GREETING)
	}
	c, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.authorize(c, m.GetHost()); err != nil {
		return nil, err
	}
	if err := s.waitForLimiter(ctx, c.states); err != nil {
		return nil, err
	}
	return statesToProto(s.config.Handler.States(m.GetHost(), m.GetSessions())), nil
}

// authorize checks that the caller's certificate proves the name host and that the host is in the list. It returns the digest of the list,
// or the refusal.
func (s *Server) authorize(c *caller, host string) (digest string, err error) {
	if !s.config.Credentials.matchesHost(c.cert, host) {
		s.counts.unmet.Add(1)
		return "", newRefusal(proto.Why_WHY_NAME)
	}
	digest, ok := s.config.Handler.Listed(host)
	if !ok {
		s.counts.unmet.Add(1)
		return "", newRefusal(proto.Why_WHY_NOT_LISTED)
	}
	return digest, nil
}

// waitForLimiter waits until a limiter, on the clock of the configuration, allows one more message. It returns an error if ctx ends first.
func (s *Server) waitForLimiter(ctx context.Context, l *rate.Limiter) error {
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

func callerFrom(ctx context.Context) (*caller, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.AuthInfo.(*caller); ok {
			return c, nil
		}
	}
	return nil, grpcstatus.Error(codes.Unauthenticated, "no certificate")
}
