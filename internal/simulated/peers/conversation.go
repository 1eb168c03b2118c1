package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/simulated/devices"
)

// conversation implements exchange.Conversation.
type conversation struct {
	peer    *peer
	digest  string
	changes chan exchange.Change
	upTo    int64              // time up to which changes were delivered
	ports   []devices.PeerPort // the host's ports at that time
	ctx     context.Context    // ends with the conversation
	cancel  context.CancelFunc
	done    chan struct{} // closed when watchHost has returned

	mu  sync.Mutex
	err error
}

// maxChanges is the maximum number of unread changes.
const maxChanges = 256

var (
	errReset          = errors.New("the host has ended the conversation")
	errChangesNotRead = errors.New("the changes that the host sends are not read")
)

func newConversation(p *peer, digest string) *conversation {
	now := p.w.Now()
	c := &conversation{
		peer: p, digest: digest, changes: make(chan exchange.Change, maxChanges), done: make(chan struct{}),
		upTo: now, ports: p.host.Ports(now),
	}
	c.ctx, c.cancel = context.WithCancel(p.ctx)
	return c
}

// watchHost delivers the changes of the host's ports until the conversation ends.
func (c *conversation) watchHost() {
	defer close(c.done)
	defer close(c.changes)
	for host := c.peer.host; ; {
		next, ever := host.NextChange(c.upTo)
		if !ever {
			<-c.ctx.Done()
			break
		}
		if !c.peer.w.Sleep(next, c.ctx.Done()) {
			break
		}
		if host.IsDown(next) {
			c.endWith(errReset)
			return
		}
		// A stopped host sends the change later.
		if c.peer.awaitProcess(c.ctx, c.ctx) != nil {
			break
		}
		c.deliverChanges(host.Ports(next))
		c.upTo = next
	}
	c.endWith(net.ErrClosed)
}

// deliverChanges delivers the differences between ports and the ports at upTo.
func (c *conversation) deliverChanges(ports []devices.PeerPort) {
	for i, q := range ports {
		if q.Epoch == c.ports[i].Epoch {
			continue
		}
		select {
		case c.changes <- exchange.Change{Device: q.Device, Port: q.Port, Epoch: q.Epoch}:
		default:
			c.endWith(errChangesNotRead)
			return
		}
	}
	c.ports = ports
}

// endWith ends the conversation with an error. The error of the first call is kept.
func (c *conversation) endWith(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = why
	}
	c.cancel()
}

// Digest implements exchange.Conversation. The lists of simulated hosts are equal.
func (c *conversation) Digest() string { return c.digest }

// Reconcile implements exchange.Conversation. A simulated host never ends a session.
func (c *conversation) Reconcile(ctx context.Context, _ exchange.Held) ([]uint64, error) {
	err := c.peer.awaitProcess(ctx, c.ctx)
	if ended := c.Err(); ended != nil {
		err = ended
	}
	if err != nil {
		return nil, fmt.Errorf("reconcile sessions with %s: %w", c.peer.name, err)
	}
	return nil, nil
}

// Offer implements exchange.Conversation.
func (c *conversation) Offer(ctx context.Context, o exchange.Offer) (exchange.Answer, error) {
	err := c.peer.awaitProcess(ctx, c.ctx)
	if ended := c.Err(); ended != nil {
		err = ended
	}
	if err != nil {
		return exchange.Answer{}, fmt.Errorf("offer a pair to %s: %w", c.peer.name, err)
	}
	return answerOffer(c.peer.host.Ports(c.peer.w.Now()), &o), nil
}

// answerOffer returns the answer of a host with these ports to an offer.
func answerOffer(ports []devices.PeerPort, o *exchange.Offer) exchange.Answer {
	q, ok := matchPort(ports, o)
	switch {
	case !ok || q.LinkLayer != o.Port.LinkLayer:
		return exchange.Answer{Reason: verdict.ReasonUnsupported}
	case q.Epoch == 0:
		return exchange.Answer{Reason: verdict.ReasonNotActive}
	case q.Refuses != "":
		return exchange.Answer{Reason: verdict.Reason(q.Refuses)}
	case q.PKey != o.Port.PKey:
		return exchange.Answer{Reason: verdict.ReasonPKey}
	}
	q.UD = q.UD[:min(len(q.UD), len(o.Port.UD))]
	const psns = 1 << 24
	return exchange.Answer{
		Port: exchange.Port{Device: q.Device, Position: q.Position, FabricPort: q.FabricPort},
		RC:   q.RC, PSN: uint32((q.Epoch ^ o.Session) % psns),
	}
}

// matchPort returns the port of the device with the same name. If the hosts have no device name in common, it returns the port of the
// device in the same position.
func matchPort(ports []devices.PeerPort, o *exchange.Offer) (devices.PeerPort, bool) {
	named := slices.ContainsFunc(ports, func(q devices.PeerPort) bool {
		return q.Device == o.Port.Device || slices.Contains(o.Devices, q.Device)
	})
	for _, q := range ports {
		if q.Port == o.Port.Port && (q.Device == o.Port.Device || !named && q.Position == o.Port.Position) {
			return q, true
		}
	}
	return devices.PeerPort{}, false
}

// Leave implements exchange.Conversation.
func (c *conversation) Leave(uint64) error {
	if err := c.Err(); err != nil {
		return fmt.Errorf("leave a pair with %s: %w", c.peer.name, err)
	}
	return nil
}

// Changes implements exchange.Conversation.
func (c *conversation) Changes() <-chan exchange.Change { return c.changes }

// Err implements exchange.Conversation. After Close it returns net.ErrClosed.
func (c *conversation) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close implements exchange.Conversation. It is idempotent.
func (c *conversation) Close() error {
	c.endWith(net.ErrClosed)
	<-c.done
	return nil
}
