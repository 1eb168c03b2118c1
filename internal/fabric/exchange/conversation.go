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

// conversation is an open conversation at the probing side. It implements Conversation.
type conversation struct {
	peer   *tcpPeer
	stream grpc.BidiStreamingClient[proto.Call, proto.Reply]
	cancel context.CancelFunc // ends the stream
	digest string
	older  bool // the host runs a release that does not name sessions

	calls     chan *proto.Call
	changes   chan Change
	closing   chan struct{} // closed by Close, after which only queued messages are sent
	ended     chan struct{} // closed when the conversation has ended
	closeOnce sync.Once
	wg        sync.WaitGroup

	mu           sync.Mutex
	err          error // the error that ended the conversation; nil while it is open
	offers       map[uint64]chan<- offerResult
	lackingReply chan []uint64 // receives the answer to Reconcile; its capacity is one
}

// offerResult is the result of an offer.
type offerResult struct {
	answer Answer
	err    error
}

// The limits of the queues of a conversation.
const (
	maxQueuedCalls   = 256
	maxQueuedChanges = 256
	maxOpenOffers    = 256
)

// The errors that this side's conversation adds to the peer's.
var (
	errEnded            = errors.New("the host has ended the conversation")
	errPeerNotReading   = errors.New("the host does not read")
	errChangesNotRead   = errors.New("the changes that the host sends are not read")
	errDuplicateSession = errors.New("the session is already offered")
	errTooManyOffers    = errors.New("too many offers at once")
)

// openConversation opens the stream of a conversation and exchanges greetings. ctx limits this call; the conversation continues after ctx ends.
func (p *tcpPeer) openConversation(ctx context.Context, l *link, digest string) (*conversation, error) {
	own, hangUp := context.WithCancel(p.ctx)
	stop := context.AfterFunc(ctx, hangUp)
	c, err := p.exchangeGreetings(own, l, digest)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	c.cancel = hangUp
	return c, nil
}

func (p *tcpPeer) exchangeGreetings(ctx context.Context, l *link, digest string) (*conversation, error) {
	stream, err := proto.NewHelloClient(l.conn).Converse(ctx)
	if err != nil {
		return nil, err
	}
	g := p.network.versions.newGreeting(p.network.config.Host, digest)
	// If the host has already refused the call, Send fails with io.EOF, and Recv below returns the reason.
	if err := stream.Send(&proto.Call{What: &proto.Call_Greeting{Greeting: g}}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	p.network.countUnknown(m)
	if err := p.checkGreeting(m.GetGreeting()); err != nil {
		return nil, localError{err}
	}
	return &conversation{
		peer: p, stream: stream, digest: m.GetGreeting().GetDigest(), older: m.GetGreeting().GetFeatures()&featureSessions == 0,
		calls: make(chan *proto.Call, maxQueuedCalls), changes: make(chan Change, maxQueuedChanges),
		closing: make(chan struct{}), ended: make(chan struct{}), offers: map[uint64]chan<- offerResult{},
		lackingReply: make(chan []uint64, 1),
	}, nil
}

func (p *tcpPeer) checkGreeting(g *proto.Greeting) error {
	own := p.network.versions
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

// start starts the goroutines of a conversation. The caller must be within callWithRetry, so that tcpPeer.Close waits for the goroutines.
func (c *conversation) start() {
	c.wg.Add(2)
	c.peer.wg.Go(func() { defer c.wg.Done(); c.writeCalls() })
	c.peer.wg.Go(func() { defer c.wg.Done(); c.readReplies() })
}

// endWith ends the conversation with an error. Only the first call has an effect.
func (c *conversation) endWith(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = why
		close(c.ended)
		c.cancel()
	}
}

// readReplies handles the host's messages until the stream ends.
func (c *conversation) readReplies() {
	defer close(c.changes)
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.endWith(c.endError(err))
			return
		}
		c.peer.network.countUnknown(m)
		switch w := m.GetWhat().(type) {
		case *proto.Reply_Answer:
			c.deliverAnswer(w.Answer)
		case *proto.Reply_Change:
			c.deliverChange(w.Change)
		case *proto.Reply_Lacking:
			c.deliverLacking(w.Lacking)
		case nil:
			c.peer.network.counts.unknown.Add(1)
		}
	}
}

// endError returns the meaning of the error that ended the stream.
func (c *conversation) endError(err error) error {
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

// deliverAnswer passes an answer to the offer that waits for it. It discards the answer if the offer no longer waits, since that session
// was left.
func (c *conversation) deliverAnswer(m *proto.Answer) {
	a, err := answerFromProto(m)
	if err != nil {
		c.peer.network.counts.malformed.Add(1)
	}
	c.mu.Lock()
	waiting := c.offers[m.GetSession()]
	delete(c.offers, m.GetSession())
	c.mu.Unlock()
	if waiting != nil {
		waiting <- offerResult{a, err} // its capacity is one
	}
}

// deliverChange passes a change to the reader of Changes. If the reader is too slow, the conversation ends: waiting for the reader would
// delay answers to offers.
func (c *conversation) deliverChange(m *proto.Change) {
	change, err := changeFromProto(m)
	if err != nil {
		c.peer.network.counts.malformed.Add(1)
		return
	}
	select {
	case c.changes <- change:
	default:
		c.endWith(errChangesNotRead)
	}
}

// writeCalls sends queued messages until the conversation ends. After Close it sends the remaining messages.
func (c *conversation) writeCalls() {
	for {
		select {
		case m := <-c.calls:
			// An error ends the stream, and readReplies gets the cause.
			if c.stream.Send(m) != nil {
				return
			}
		case <-c.ended:
			return
		case <-c.closing:
			c.flushCalls()
			return
		}
	}
}

func (c *conversation) flushCalls() {
	for {
		select {
		case m := <-c.calls:
			if c.stream.Send(m) != nil {
				return
			}
		default:
			_ = c.stream.CloseSend() // readReplies gets the error of the stream
			return
		}
	}
}

// Digest implements Conversation.
func (c *conversation) Digest() string { return c.digest }

// deliverLacking passes the answer to Reconcile. It discards the answer if a previous one was not read.
func (c *conversation) deliverLacking(m *proto.Lacking) {
	if checkSessions(m.GetSessions()) != nil {
		c.peer.network.counts.malformed.Add(1)
		return
	}
	select {
	case c.lackingReply <- m.GetSessions():
	default:
	}
}

// Reconcile implements Conversation.
func (c *conversation) Reconcile(ctx context.Context, h Held) ([]uint64, error) {
	lacking, err := c.sendHeld(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("reconcile sessions with %s: %w", c.peer.host, err)
	}
	return lacking, nil
}

func (c *conversation) sendHeld(ctx context.Context, h Held) ([]uint64, error) {
	if c.older {
		return nil, errors.ErrUnsupported
	}
	if err := errors.Join(checkSessions(h.Sessions), checkRange("the number of epochs", uint64(len(h.Epochs)), 0, maxEpochs)); err != nil {
		return nil, err
	}
	select {
	case c.calls <- &proto.Call{What: &proto.Call_Held{Held: &proto.Held{Sessions: h.Sessions, Epochs: h.Epochs}}}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
		return nil, c.Err()
	}
	select {
	case lacking := <-c.lackingReply:
		return lacking, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ended:
		return nil, c.Err()
	}
}

// Offer implements Conversation. It leaves the session of an offer that it abandons, since the host may have connected it.
func (c *conversation) Offer(ctx context.Context, o Offer) (Answer, error) {
	answer, err := c.registerOffer(o.Session)
	if err != nil {
		return Answer{}, fmt.Errorf("offer a pair to %s: %w", c.peer.host, err)
	}
	a, err := c.sendOffer(ctx, o, answer)
	if err != nil {
		return Answer{}, fmt.Errorf("offer a pair to %s: %w", c.peer.host, err)
	}
	return a, nil
}

// registerOffer registers an offer and returns the channel for its result.
func (c *conversation) registerOffer(session uint64) (<-chan offerResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.offers[session]; {
	case c.err != nil:
		return nil, c.err
	case c.isClosing():
		return nil, errClosed
	case twice:
		return nil, errDuplicateSession
	case len(c.offers) >= maxOpenOffers:
		return nil, errTooManyOffers
	}
	answer := make(chan offerResult, 1)
	c.offers[session] = answer
	return answer, nil
}

func (c *conversation) sendOffer(ctx context.Context, o Offer, answer <-chan offerResult) (Answer, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.offers, o.Session)
	}()
	select {
	case c.calls <- &proto.Call{What: &proto.Call_Offer{Offer: offerToProto(o)}}:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-c.ended:
		return Answer{}, c.Err()
	}
	select {
	case a := <-answer:
		if a.err != nil {
			_ = c.Leave(o.Session) // an error means that the conversation has ended
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
	case c.calls <- &proto.Call{What: &proto.Call_Leave{Leave: &proto.Leave{Session: session}}}:
		return nil
	default:
		c.endWith(errPeerNotReading)
		return fmt.Errorf("leave a pair with %s: %w", c.peer.host, errPeerNotReading)
	}
}

// Changes implements Conversation.
func (c *conversation) Changes() <-chan Change { return c.changes }

// Err implements Conversation. After Close it returns net.ErrClosed.
func (c *conversation) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close implements Conversation. It sends the queued messages, for which it waits at most a second. It is idempotent.
func (c *conversation) Close() error {
	c.closeOnce.Do(func() { close(c.closing) })
	late := time.AfterFunc(closeTimeout, func() { c.endWith(errClosed) })
	defer late.Stop()
	c.wg.Wait()
	return nil
}
