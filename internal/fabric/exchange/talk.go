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

// message is what all generated messages have.
type message interface{ ProtoReflect() protoreflect.Message }

// stream is the stream of a Converse, at the side that answers.
type stream = grpc.BidiStreamingServer[proto.Call, proto.Reply]

// talk is a conversation, at the side that answers.
type talk struct {
	server *Server
	stream stream
	caller *caller
	host   string // "" until the greeting
	older  bool   // the host runs a release that does not name sessions

	ctx      context.Context
	cancel   context.CancelFunc
	in       chan *proto.Call
	out      chan *proto.Reply
	dropping sync.Once

	meetings sync.WaitGroup
	meeting  chan struct{} // has a token for each offer that is being answered
	offers   *rate.Limiter
	messages *rate.Limiter

	mu       sync.Mutex // of what follows
	sessions []uint64   // met or kept and not left, the newest last
}

// Converse implements proto.HelloServer.
func (s *Server) Converse(to stream) error {
	c, err := callerOf(to.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(to.Context())
	defer cancel()
	t := &talk{
		server: s, stream: to, caller: c, ctx: ctx, cancel: cancel,
		in: make(chan *proto.Call), out: make(chan *proto.Reply, s.limits.unread), meeting: make(chan struct{}, s.limits.meetings),
		offers:   perSecond(s.limits.offers),
		messages: perSecond(s.limits.messages),
	}
	// A read ends with the stream, which ends when this method returns.
	s.wg.Go(t.read)
	greeting, err := t.greet()
	if err != nil {
		return err
	}
	if !s.begin(t, greeting) {
		s.counts.unmet.Add(1)
		return refusal(proto.Why_WHY_FULL)
	}
	var writing sync.WaitGroup
	written := make(chan struct{})
	writing.Go(func() { t.write(written) })
	err = t.run()
	s.remove(t)
	t.finish(written)
	writing.Wait()
	s.config.Handler.Ended(t.host, t.sessions)
	return err
}

// begin adds a talk that was greeted, and returns false if there are too many. The greeting is what it says first.
func (s *Server) begin(t *talk, greeting *proto.Reply) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.talks) >= s.limits.conversations || s.of[t.host] >= s.limits.perHost {
		return false
	}
	t.out <- greeting
	s.talks[t] = struct{}{}
	s.of[t.host]++
	s.counts.conversed.Add(1)
	return true
}

// remove removes a talk: it hears of no change any more.
func (s *Server) remove(t *talk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.talks, t)
	if s.of[t.host]--; s.of[t.host] == 0 {
		delete(s.of, t.host)
	}
}

// drop ends a talk whose host does not read. It does not block.
func (t *talk) drop() {
	t.dropping.Do(func() {
		t.server.counts.dropped.Add(1)
		t.cancel()
	})
}

// read passes on what the host says, and closes in when it has said all.
func (t *talk) read() {
	defer close(t.in)
	for {
		m, err := t.stream.Recv()
		if err != nil {
			return
		}
		t.server.countUnknown(m)
		select {
		case t.in <- m:
		case <-t.ctx.Done():
			return
		}
	}
}

// write sends what waits in out until it is closed, and then closes written.
func (t *talk) write(written chan<- struct{}) {
	defer close(written)
	for m := range t.out {
		if t.stream.Send(m) != nil {
			t.cancel()
			return
		}
	}
}

// greet waits for the host's greeting, and returns the answer to it.
func (t *talk) greet() (*proto.Reply, error) {
	late := time.NewTimer(t.server.limits.greetingLasts)
	defer late.Stop()
	var m *proto.Greeting
	select {
	case call := <-t.in:
		m = call.GetGreeting()
	case <-late.C:
	case <-t.ctx.Done():
		return nil, t.ctx.Err()
	}
	if m == nil {
		return nil, refusal(proto.Why_WHY_GREETING)
	}
	digest, err := t.server.admit(t.caller, m.GetHost())
	if err != nil {
		return nil, err
	}
	own := t.server.speaks
	v, ok := own.common(versions{m.GetLeast(), m.GetMost()})
	if !ok {
		t.server.counts.unmet.Add(1)
		return nil, refusal(proto.Why_WHY_VERSION)
	}
	t.host, t.older = m.GetHost(), m.GetFeatures()&featureSessions == 0
	g := own.greeting(t.server.config.Host, digest)
	g.Version = v
	return &proto.Reply{What: &proto.Reply_Greeting{Greeting: g}}, nil
}

// run answers the host until it has said all, or the talk ends.
//
// Offers are answered beside each other: the firmware of one device does not delay the pairs of the others.
func (t *talk) run() error {
	ctx, cancel := context.WithCancel(t.ctx)
	defer t.meetings.Wait()
	defer cancel()
	if t.older {
		t.keep(t.server.config.Handler.Reconcile(t.host, nil))
	}
	for {
		select {
		case m, ok := <-t.in:
			if !ok {
				return nil
			}
			if err := t.take(ctx, m); err != nil {
				return err
			}
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
}

// finish has the rest be sent. A host that does not read it loses its connection: nothing else ends a send that waits.
func (t *talk) finish(written <-chan struct{}) {
	close(t.out)
	late := time.NewTimer(t.server.limits.unreadLasts)
	defer late.Stop()
	select {
	case <-written:
	case <-late.C:
		_ = t.caller.conn.Close()
	}
}

// say sends a message after those that wait, unless the talk ends before.
func (t *talk) say(m *proto.Reply) {
	select {
	case t.out <- m:
	case <-t.ctx.Done():
	}
}

// take answers a message of the host. Offers are given up when ctx ends.
func (t *talk) take(ctx context.Context, m *proto.Call) error {
	if err := t.server.pace(t.ctx, t.messages); err != nil {
		return err
	}
	switch w := m.GetWhat().(type) {
	case *proto.Call_Offer:
		return t.offered(ctx, w.Offer)
	case *proto.Call_Leave:
		t.left(w.Leave.GetSession())
	case *proto.Call_Held:
		t.say(&proto.Reply{What: &proto.Reply_Lacking{Lacking: t.reconcile(w.Held)}})
	case nil:
		t.server.counts.unknown.Add(1)
	}
	return nil
}

// offered has an offer answered. The list may have changed since the greeting.
func (t *talk) offered(ctx context.Context, m *proto.Offer) error {
	if err := t.server.pace(t.ctx, t.offers); err != nil {
		return err
	}
	if _, err := t.server.admit(t.caller, t.host); err != nil {
		return err
	}
	select {
	case t.meeting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	t.meetings.Go(func() {
		t.say(&proto.Reply{What: &proto.Reply_Answer{Answer: t.answer(ctx, m)}})
		<-t.meeting
	})
	return nil
}

// answer returns the answer to an offer.
func (t *talk) answer(ctx context.Context, m *proto.Offer) *proto.Answer {
	o, err := offerFromProto(m)
	if err != nil {
		t.server.counts.malformed.Add(1)
		return &proto.Answer{Session: m.GetSession(), Fault: proto.Fault_FAULT_MALFORMED}
	}
	a := t.server.config.Handler.Meet(ctx, t.host, o)
	if a.Reason == verdict.ReasonNone {
		t.met(o.Session)
	}
	return answerToProto(o.Session, a)
}

// reconcile returns the sessions that a host goes on with and this one does not.
func (t *talk) reconcile(m *proto.Held) *proto.Lacking {
	h, err := heldFromProto(m)
	if err != nil {
		t.server.counts.malformed.Add(1)
		return &proto.Lacking{}
	}
	kept := t.server.config.Handler.Reconcile(t.host, h)
	t.keep(kept)
	return &proto.Lacking{Sessions: without(h.Sessions, kept)}
}

func (t *talk) keep(sessions []uint64) {
	for _, s := range sessions {
		t.met(s)
	}
}

// met remembers a session, and forgets the oldest if there are too many.
func (t *talk) met(session uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = append(slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session }), session)
	if n := len(t.sessions) - t.server.limits.sessions; n > 0 {
		t.sessions = slices.Delete(t.sessions, 0, n)
	}
}

func (t *talk) left(session uint64) {
	t.mu.Lock()
	t.sessions = slices.DeleteFunc(t.sessions, func(s uint64) bool { return s == session })
	t.mu.Unlock()
	if session != 0 {
		t.server.config.Handler.Leave(t.host, session)
	}
}
