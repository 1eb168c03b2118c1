package exchange

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/fabric/verdict"
)

// message is implemented by all generated messages.
type message interface{ ProtoReflect() protoreflect.Message }

// stream is the stream of a Converse call at the answering side.
type stream = grpc.BidiStreamingServer[proto.Call, proto.Reply]

// serverConversation is a conversation at the answering side.
type serverConversation struct {
	server *Server
	stream stream
	caller *caller
	host   string // "" before the greeting
	older  bool   // the host runs a release that does not name sessions

	ctx        context.Context
	cancel     context.CancelFunc
	calls      chan *proto.Call
	replies    chan *proto.Reply
	cancelOnce sync.Once

	offersInProgress sync.WaitGroup
	offerSlots       chan struct{} // holds a token for each offer that is being answered
	offerLimiter     *rate.Limiter
	messageLimiter   *rate.Limiter

	mu       sync.Mutex // guards sessions
	sessions []uint64   // offered or kept, and not left; the newest last
}

// Converse implements proto.HelloServer.
func (s *Server) Converse(to stream) error {
	c, err := callerFrom(to.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	t := &serverConversation{
		server: s, stream: to, caller: c, ctx: ctx, cancel: cancel,
		calls: make(chan *proto.Call), replies: make(chan *proto.Reply, s.limits.queuedReplies), offerSlots: make(chan struct{}, s.limits.concurrentOffers),
		offerLimiter:   perSecond(s.limits.offers),
		messageLimiter: perSecond(s.limits.messages),
	}
	// The read ends with the stream, which ends when this method returns.
	s.readers.Go(t.readCalls)
	greeting, err := t.awaitGreeting()
	if err != nil {
		return err
	}
	if !s.addConversation(t, greeting) {
		s.counts.unmet.Add(1)
		return newRefusal(proto.Why_WHY_FULL)
	}
	var writing sync.WaitGroup
	written := make(chan struct{})
	writing.Go(func() { t.writeReplies(written) })
	err = t.handleCalls()
	s.removeConversation(t)
	t.flushReplies(written)
	writing.Wait()
	s.config.Handler.HandleConversationEnd(t.host, t.sessions)
	return err
}

// addConversation adds a conversation whose caller has greeted, and queues the greeting of this host. It returns false if there are too many
// conversations.
func (s *Server) addConversation(t *serverConversation, greeting *proto.Reply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conversations) >= s.limits.conversations || s.perHost[t.host] >= s.limits.perHost {
		return false
	}
	t.replies <- greeting
	s.conversations[t] = struct{}{}
	s.perHost[t.host]++
	s.counts.conversed.Add(1)
	return true
}

// removeConversation removes a conversation, which then receives no changes any more.
func (s *Server) removeConversation(t *serverConversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conversations, t)
	if s.perHost[t.host]--; s.perHost[t.host] == 0 {
		delete(s.perHost, t.host)
	}
}

// cancelUnread ends a conversation whose host does not read. It does not block.
func (t *serverConversation) cancelUnread() {
	t.cancelOnce.Do(func() {
		t.server.counts.dropped.Add(1)
		t.cancel()
	})
}

// readCalls forwards the host's messages to calls, and closes calls at the end of the stream.
func (t *serverConversation) readCalls() {
	defer close(t.calls)
	for {
		m, err := t.stream.Recv()
		if err != nil {
			return
		}
		t.server.countUnknown(m)
		select {
		case t.calls <- m:
		case <-t.ctx.Done():
			return
		}
	}
}

// writeReplies sends the messages of replies until that channel is closed, and then closes written.
func (t *serverConversation) writeReplies(written chan<- struct{}) {
	defer close(written)
	for m := range t.replies {
		if t.stream.Send(m) != nil {
			t.cancel()
			return
		}
	}
}

// awaitGreeting waits for the host's greeting and returns the greeting to answer with.
func (t *serverConversation) awaitGreeting() (*proto.Reply, error) {
	late := time.NewTimer(t.server.limits.greetingTimeout)
	defer late.Stop()
	var m *proto.Greeting
	select {
	case call := <-t.calls:
		m = call.GetGreeting()
	case <-late.C:
	case <-t.ctx.Done():
		return nil, t.ctx.Err()
	}
	if m == nil {
		return nil, newRefusal(proto.Why_WHY_GREETING)
	}
	digest, err := t.server.authorize(t.caller, m.GetHost())
	if err != nil {
		return nil, err
	}
	own := t.server.versions
	v, ok := own.highestCommon(versions{m.GetLeast(), m.GetMost()})
	if !ok {
		t.server.counts.unmet.Add(1)
		return nil, newRefusal(proto.Why_WHY_VERSION)
	}
	t.host, t.older = m.GetHost(), m.GetFeatures()&featureSessions == 0
	g := own.newGreeting(t.server.config.Host, digest)
	g.Version = v
	return &proto.Reply{What: &proto.Reply_Greeting{Greeting: g}}, nil
}

// handleCalls answers the host's messages until the stream or the conversation ends.
//
// Offers are answered concurrently, so that the firmware of one device does not delay the pairs of other devices.
func (t *serverConversation) handleCalls() error {
	ctx, cancel := context.WithCancel(t.ctx)
	defer t.offersInProgress.Wait()
	defer cancel()
	if t.older {
		t.addSessions(t.server.config.Handler.Reconcile(t.host, nil))
	}
	for {
		select {
		case m, ok := <-t.calls:
			if !ok {
				return nil
			}
			if err := t.handleCall(ctx, m); err != nil {
				return err
			}
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
}

// flushReplies waits until the queued replies are sent. If the host does not read them, flushReplies closes its connection: nothing else
// ends a blocked send.
func (t *serverConversation) flushReplies(written <-chan struct{}) {
	close(t.replies)
	late := time.NewTimer(t.server.limits.flushTimeout)
	defer late.Stop()
	select {
	case <-written:
	case <-late.C:
		_ = t.caller.conn.Close()
	}
}

// send queues a message. It blocks while the queue is full, and discards the message if the conversation ends.
func (t *serverConversation) send(m *proto.Reply) {
	select {
	case t.replies <- m:
	case <-t.ctx.Done():
	}
}

// handleCall answers a message of the host. It abandons offers when ctx ends.
func (t *serverConversation) handleCall(ctx context.Context, m *proto.Call) error {
	if err := t.server.waitForLimiter(t.ctx, t.messageLimiter); err != nil {
		return err
	}
	switch w := m.GetWhat().(type) {
	case *proto.Call_Offer:
		return t.handleOffer(ctx, w.Offer)
	case *proto.Call_Leave:
		t.leaveSession(w.Leave.GetSession())
	case *proto.Call_Held:
		t.send(&proto.Reply{What: &proto.Reply_Lacking{Lacking: t.reconcile(w.Held)}})
	case nil:
		t.server.counts.unknown.Add(1)
	}
	return nil
}

// handleOffer starts a goroutine that answers an offer. It first authorizes the host again, since the list may have changed since the greeting.
func (t *serverConversation) handleOffer(ctx context.Context, m *proto.Offer) error {
	if err := t.server.waitForLimiter(t.ctx, t.offerLimiter); err != nil {
		return err
	}
	if _, err := t.server.authorize(t.caller, t.host); err != nil {
		return err
	}
	select {
	case t.offerSlots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	t.offersInProgress.Go(func() {
		t.send(&proto.Reply{What: &proto.Reply_Answer{Answer: t.answerOffer(ctx, m)}})
		<-t.offerSlots
	})
	return nil
}

// answerOffer returns the answer to an offer.
func (t *serverConversation) answerOffer(ctx context.Context, m *proto.Offer) *proto.Answer {
	o, err := offerFromProto(m)
	if err != nil {
		t.server.counts.malformed.Add(1)
		return &proto.Answer{Session: m.GetSession(), Fault: proto.Fault_FAULT_MALFORMED}
	}
	a := t.server.config.Handler.AnswerOffer(ctx, t.host, o)
	if a.Reason == verdict.ReasonNone {
		t.addSession(o.Session)
	}
	return answerToProto(o.Session, a)
}

// reconcile returns the sessions that the host continues and this host does not.
func (t *serverConversation) reconcile(m *proto.Held) *proto.Lacking {
	h, err := heldFromProto(m)
	if err != nil {
		t.server.counts.malformed.Add(1)
		return &proto.Lacking{}
	}
	kept := t.server.config.Handler.Reconcile(t.host, h)
	t.addSessions(kept)
	return &proto.Lacking{Sessions: lackingSessions(h.Sessions, kept)}
}

func (t *serverConversation) addSessions(sessions []uint64) {
	for _, s := range sessions {
		t.addSession(s)
	}
}

// addSession remembers a session. If there are too many, it forgets the oldest one.
func (t *serverConversation) addSession(session uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = append(slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session }), session)
	if n := len(t.sessions) - t.server.limits.sessions; n > 0 {
		t.sessions = slices.Delete(t.sessions, 0, n)
	}
}

func (t *serverConversation) leaveSession(session uint64) {
	t.mu.Lock()
	t.sessions = slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session })
	t.mu.Unlock()
	if session != 0 {
		t.server.config.Handler.Leave(t.host, session)
	}
}
