package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"rdma_events/internal/fabric/exchange/proto"
)

// conversation is an open conversation, at the side that probes. It implements Conversation.
type conversation struct {
	peer   *remote
	stream grpc.BidiStreamingClient[proto.Call, proto.Reply]
	hangUp context.CancelFunc // ends the stream
	digest string
	older  bool // the host runs a release that does not know sessions

	out     chan *proto.Call
	changes chan Change
	closing chan struct{} // closed by Close: the rest is said
	ended   chan struct{} // closed when the conversation has ended
	close   sync.Once
	wg      sync.WaitGroup

	mu      sync.Mutex
	err     error // why it has ended; nil before
	waiting map[uint64]chan<- answered
	lacking chan []uint64 // has the answer to Reconcile; it has space for one
}

// answered is what an offer has led to.
type answered struct {
	answer Answer
	err    error
}

// The limits of what waits in a conversation.
const (
	mostUnsaid  = 256
	mostChanges = 256
	mostOffers  = 256
)

// The ends of a conversation, beside those that a peer causes.
var (
	errEnded   = errors.New("the host has ended the conversation")
	errUnheard = errors.New("the host does not read")
	errUnread  = errors.New("what the host tells is not read here")
	errOffered = errors.New("the session is offered already")
	errOffers  = errors.New("too many offers at once")
)

// greet opens the stream of a conversation, whose end ctx is until the host has answered the greeting.
func (p *remote) greet(ctx context.Context, l *link, digest string) (*conversation, error) {
	own, hangUp := context.WithCancel(p.ctx)
	stop := context.AfterFunc(ctx, hangUp)
	c, err := p.greetOn(own, l, digest)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	c.hangUp = hangUp
	return c, nil
}

func (p *remote) greetOn(ctx context.Context, l *link, digest string) (*conversation, error) {
	stream, err := proto.NewHelloClient(l.conn).Converse(ctx)
	if err != nil {
		return nil, err
	}
	g := p.network.speaks.greeting(p.network.config.Host, digest)
	// If the host has refused already, this fails with io.EOF, and the reason is read below.
	if err := stream.Send(&proto.Call{What: &proto.Call_Greeting{Greeting: g}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	p.network.countUnknown(m)
	if err := p.checkGreeting(m.GetGreeting()); err != nil {
		return nil, judgement{err}
	}
	return &conversation{
		peer: p, stream: stream, digest: m.GetGreeting().GetDigest(), older: m.GetGreeting().GetFeatures()&featureSessions == 0,
		out: make(chan *proto.Call, mostUnsaid), changes: make(chan Change, mostChanges),
		closing: make(chan struct{}), ended: make(chan struct{}), waiting: map[uint64]chan<- answered{},
		lacking: make(chan []uint64, 1),
	}, nil
}

func (p *remote) checkGreeting(g *proto.Greeting) error {
	own := p.network.speaks
	switch v := g.GetVersion(); {
	case g == nil:
		return fmt.Errorf("%w: no greeting", ErrMalformed)
	case v < own.least || v > own.most:
		return ErrVersion
	case g.GetHost() != p.host:
		return fmt.Errorf("%w: it greets with another name", ErrKey)
	case !isDigest(g.GetDigest()):
		return fmt.Errorf("%w: no list has such a digest", ErrMalformed)
	}
	return nil
}

// begin starts the goroutines of a conversation that was greeted, within the call that has greeted.
func (c *conversation) begin() {
	c.wg.Add(2)
	c.peer.wg.Go(func() { defer c.wg.Done(); c.write() })
	c.peer.wg.Go(func() { defer c.wg.Done(); c.read() })
}

// end ends the conversation, for the first reason that it is called with.
func (c *conversation) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = why
		close(c.ended)
		c.hangUp()
	}
}

// read takes what the host says, until the stream ends.
func (c *conversation) read() {
	defer close(c.changes)
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.end(c.reason(err))
			return
		}
		c.peer.network.countUnknown(m)
		switch w := m.GetWhat().(type) {
		case *proto.Reply_Answer:
			c.take(w.Answer)
		case *proto.Reply_Change:
			c.pass(w.Change)
		case *proto.Reply_Lacking:
			c.takeLacking(w.Lacking)
		case nil:
			c.peer.network.counts.unknown.Add(1)
		}
	}
}

// reason returns what the end of the stream means.
func (c *conversation) reason(err error) error {
	switch {
	case c.isClosing() || c.peer.ctx.Err() != nil:
		return errClosed
	case errors.Is(err, io.EOF):
		return errEnded
	}
	return callError(err)
}

func (c *conversation) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// take gives an answer to the offer that waits for it. One that waits no more has left.
func (c *conversation) take(m *proto.Answer) {
	a, err := answerFromProto(m)
	if err != nil {
		c.peer.network.counts.malformed.Add(1)
	}
	c.mu.Lock()
	waiting := c.waiting[m.GetSession()]
	delete(c.waiting, m.GetSession())
	c.mu.Unlock()
	if waiting != nil {
		waiting <- answered{a, err} // it has space for one
	}
}

// pass passes on a change. To wait for its reader would keep answers from theirs.
func (c *conversation) pass(m *proto.Change) {
	change, err := changeFromProto(m)
	if err != nil {
		c.peer.network.counts.malformed.Add(1)
		return
	}
	select {
	case c.changes <- change:
	default:
		c.end(errUnread)
	}
}

// write says what there is to say, and after Close the rest of it.
func (c *conversation) write() {
	for {
		select {
		case m := <-c.out:
			// An error ends the stream, and read has its reason.
			if c.stream.Send(m) != nil {
				return
			}
		case <-c.ended:
			return
		case <-c.closing:
			c.writeRest()
			return
		}
	}
}

func (c *conversation) writeRest() {
	for {
		select {
		case m := <-c.out:
			if c.stream.Send(m) != nil {
				return
			}
		default:
			_ = c.stream.CloseSend() // its error is that of the stream
			return
		}
	}
}

// Digest implements Conversation.
func (c *conversation) Digest() string { return c.digest }

// takeLacking gives the answer to Reconcile, unless that is called no more.
func (c *conversation) takeLacking(m *proto.Lacking) {
	if checkSessions(m.GetSessions()) != nil {
		c.peer.network.counts.malformed.Add(1)
		return
	}
	select {
	case c.lacking <- m.GetSessions():
	default:
	}
}

// Reconcile implements Conversation.
func (c *conversation) Reconcile(ctx context.Context, h Held) ([]uint64, error) {
	lacking, err := c.reconcile(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("reconcile sessions with %s: %w", c.peer.host, err)
	}
	return lacking, nil
}

func (c *conversation) reconcile(ctx context.Context, h Held) ([]uint64, error) {
	if c.older {
		return nil, errors.ErrUnsupported
	}
	if err := errors.Join(checkSessions(h.Sessions), within("the number of epochs", uint64(len(h.Epochs)), 0, mostEpochs)); err != nil {
		return nil, err
	}
	select {
	case c.out <- &proto.Call{What: &proto.Call_Held{Held: &proto.Held{Sessions: h.Sessions, Epochs: h.Epochs}}}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
		return nil, c.Err()
	}
	select {
	case lacking := <-c.lacking:
		return lacking, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
		return nil, c.Err()
	}
}

// Offer implements Conversation. An offer that was given up is left: the host may have met it.
func (c *conversation) Offer(ctx context.Context, o Offer) (Answer, error) {
	answer, err := c.wait(o.Session)
	if err != nil {
		return Answer{}, fmt.Errorf("offer a pair to %s: %w", c.peer.host, err)
	}
	a, err := c.offer(ctx, o, answer)
	if err != nil {
		return Answer{}, fmt.Errorf("offer a pair to %s: %w", c.peer.host, err)
	}
	return a, nil
}

// wait registers an offer.
func (c *conversation) wait(session uint64) (<-chan answered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.waiting[session]; {
	case c.err != nil:
		return nil, c.err
	case c.isClosing():
		return nil, errClosed
	case twice:
		return nil, errOffered
	case len(c.waiting) >= mostOffers:
		return nil, errOffers
	}
	answer := make(chan answered, 1)
	c.waiting[session] = answer
	return answer, nil
}

func (c *conversation) offer(ctx context.Context, o Offer, answer <-chan answered) (Answer, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, o.Session)
	}()
	select {
	case c.out <- &proto.Call{What: &proto.Call_Offer{Offer: offerToProto(o)}}:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-c.ended:
		return Answer{}, c.Err()
	}
	select {
	case a := <-answer:
		if a.err != nil {
			_ = c.Leave(o.Session) // if that fails, the conversation has ended
		}
		return a.answer, a.err
	case <-ctx.Done():
		_ = c.Leave(o.Session)
		return Answer{}, ctx.Err()
	case <-c.ended:
		return Answer{}, c.Err()
	}
}

// Leave implements Conversation.
func (c *conversation) Leave(session uint64) error {
	err := c.Err()
	if err == nil && c.isClosing() {
		err = errClosed
	}
	if err != nil {
		return fmt.Errorf("leave a pair with %s: %w", c.peer.host, err)
	}
	select {
	case c.out <- &proto.Call{What: &proto.Call_Leave{Leave: &proto.Leave{Session: session}}}:
		return nil
	default:
		c.end(errUnheard)
		return fmt.Errorf("leave a pair with %s: %w", c.peer.host, errUnheard)
	}
}

// Changes implements Conversation.
func (c *conversation) Changes() <-chan Change { return c.changes }

// Err implements Conversation. After Close it is net.ErrClosed.
func (c *conversation) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close implements Conversation. What was said before is sent, for which it waits a second at most. It is idempotent.
func (c *conversation) Close() error {
	c.close.Do(func() { close(c.closing) })
	late := time.AfterFunc(leavingLasts, func() { c.end(errClosed) })
	defer late.Stop()
	c.wg.Wait()
	return nil
}
