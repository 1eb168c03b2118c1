package pairs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/aggregate"
)

// host is a host that this one probes. It has a goroutine that holds the conversation with it, and one that asks for its state
// while it is silent.
type host struct {
	pinglist.Peer
	k       *Keeper
	keeping context.Context //nolint:containedctx // of the Keeper: after it the workers end, too
	ctx     context.Context //nolint:containedctx // it is that of the host's own goroutines, which end with it
	end     context.CancelFunc
	wake    wake.Signal // holds a token when a pair may want to be met
	silent  wake.Signal // holds a token when both witnesses of a pair are silent
	reached wake.Signal // holds a token when the host's process has answered though there is no conversation

	// Guarded by Keeper.mu.
	pairs   []*pair
	unheard verdict.Reason
	older   bool     // it runs a release that does not know sessions
	lost    int64    // when the last conversation ended, CLOCK_MONOTONIC ns; 0: one is open, or there was none
	ended   []uint64 // sessions that the host has to end
}

// newHost returns a host that does nothing before run.
func (k *Keeper) newHost(ctx context.Context, p pinglist.Peer) *host {
	h := &host{Peer: p, k: k, keeping: ctx, wake: wake.New(), silent: wake.New(), reached: wake.New()}
	h.ctx, h.end = context.WithCancel(ctx)
	return h
}

// pairWith makes the pair with an own port unless there is one, or ends it if the port is gone.
func (h *host) pairWith(p *port) {
	free := -1
	for slot, pr := range p.pairs {
		switch {
		case pr != nil && pr.host == h:
			if !p.isUsed() {
				pr.drop()
			}
			return
		case pr == nil && free < 0:
			free = slot
		}
	}
	if free < 0 || !p.isUsed() {
		return
	}
	pr := &pair{
		host: h, port: p, slot: free, reason: verdict.ReasonStarting, unmet: h.k.cfg.Mono(), tracker: verdict.NewTracker(verbs.MaxFabricPaths),
		write: aggregate.NewWindow(h.k.cfg.Window), echoes: aggregate.NewWindow(h.k.cfg.Window),
	}
	if h.unheard != verdict.ReasonNone {
		pr.reason = h.unheard
	}
	if p.info.Epoch == 0 {
		pr.reason = verdict.ReasonOwnPort
	}
	p.pairs[free] = pr
	h.pairs = append(h.pairs, pr)
	h.k.groupOf(&h.Peer)
	h.wake.Send()
}

// drop forgets a pair; what it has counted stays with its port and group.
func (pr *pair) drop() {
	pr.tracker.EndSession()
	c := pr.tracker.Counts()
	pr.port.gone.Add(&c)
	pr.port.k.groupOf(&pr.host.Peer).gone.Add(&c)
	pr.port.pairs[pr.slot] = nil
	for i, o := range pr.host.pairs {
		if o == pr {
			pr.host.pairs = append(pr.host.pairs[:i:i], pr.host.pairs[i+1:]...)
			break
		}
	}
}

// run talks with the host until it is not to be probed any more.
func (h *host) run() {
	asked := make(chan struct{})
	peer, err := h.k.cfg.Network.Peer(h.Host)
	if err != nil {
		h.hangUp(err)
		<-h.ctx.Done()
		h.stopAll()
		return
	}
	go func() {
		defer close(asked)
		h.ask(peer)
	}()
	var retry backoff
	for h.ctx.Err() == nil {
		began := h.k.cfg.Mono()
		err := h.converse(peer)
		if h.k.cfg.Mono()-began > int64(lastRetry) {
			retry.reset()
		}
		h.hangUp(err)
		h.rest(h.pause(err, &retry))
	}
	<-asked
	_ = peer.Close()
	h.stopAll()
}

// pause returns how long to wait before the next conversation.
func (h *host) pause(err error, retry *backoff) time.Duration {
	if errors.Is(err, exchange.ErrNotListed) || errors.Is(err, exchange.ErrVersion) || errors.Is(err, exchange.ErrKey) {
		return lastRetry - time.Duration(h.k.cfg.Random()%uint64(lastRetry/4))
	}
	return retry.next(h.k.cfg.Random)
}

// rest waits until the next conversation may begin, at most for lasting, and at most for firstRetry once the host's process has
// answered a State request. Meanwhile it has the workers end the pairs that do not go on.
func (h *host) rest(lasting time.Duration) {
	began := h.k.cfg.Mono()
	for h.ctx.Err() == nil {
		h.stopParted()
		left := lasting - time.Duration(h.k.cfg.Mono()-began)
		if left <= 0 {
			return
		}
		t := time.NewTimer(left)
		select {
		case <-h.ctx.Done():
		case <-t.C:
		case <-h.wake:
		case <-h.reached:
			lasting = min(lasting, firstRetry)
		}
		t.Stop()
	}
}

// hangUp notes why there is no conversation with the host. Pairs that have met go on without one.
func (h *host) hangUp(err error) {
	if err == nil || h.ctx.Err() != nil {
		return
	}
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	why := exchange.ReasonOf(err)
	if h.unheard == verdict.ReasonNone {
		h.lost = h.k.cfg.Mono()
	}
	if why != h.unheard {
		h.k.cfg.Log.Debug("no conversation with a host", "host", h.Name, "reason", string(why), "error", err)
	}
	h.unheard = why
	for _, pr := range h.pairs {
		pr.apart = true
		if why == verdict.ReasonNotListed {
			pr.stale = true // the host has ended what it answers
		}
		if pr.reason != verdict.ReasonOwnPort {
			pr.failed(why)
		}
	}
}

// converse holds one conversation, and returns why it is over. Meanwhile it meets the pairs that may be met, and hears of changes of
// the host's ports.
func (h *host) converse(peer exchange.Peer) error {
	ctx, cancel := context.WithTimeout(h.ctx, converseTimeout)
	conv, err := peer.Converse(ctx, h.digest())
	cancel()
	if err != nil {
		return err
	}
	defer conv.Close()
	if err := h.reconcile(conv); err != nil {
		return err
	}
	h.heard()
	// A device whose firmware hangs does not delay the pairs of the others, so each device meets on its own.
	var meetings sync.WaitGroup
	defer meetings.Wait()
	ctx, cancel = context.WithCancel(h.ctx)
	defer cancel()
	for {
		h.stopParted()
		h.leaveEnded(conv)
		if pr, wait := h.next(); pr != nil {
			if h.k.awaitTurn(ctx) == nil {
				if m, ok := h.begin(pr); ok {
					meetings.Go(func() { h.meet(ctx, conv, m) })
				}
			}
		} else {
			t := time.NewTimer(wait)
			select {
			case <-h.ctx.Done():
			case <-h.wake:
			case <-t.C:
			case c, ok := <-conv.Changes():
				if !ok {
					t.Stop()
					return errors.Join(errEnded, conv.Err())
				}
				h.changed(c)
			}
			t.Stop()
		}
		if h.ctx.Err() != nil {
			h.leaveAll(conv)
			return h.ctx.Err()
		}
	}
}

// reconcile agrees with the host on the sessions that go on. A host of an older release goes on only with sessions that were met
// in the conversation that is open, so all are met again.
func (h *host) reconcile(conv exchange.Conversation) error {
	ctx, cancel := context.WithTimeout(h.ctx, converseTimeout)
	defer cancel()
	held := h.held()
	lacking, err := conv.Reconcile(ctx, held)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		lacking = held.Sessions
	case err != nil:
		return err
	}
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	h.older = err != nil
	for _, pr := range h.pairs {
		if slices.Contains(lacking, pr.current()) {
			pr.makeStale()
		}
	}
	return nil
}

func (h *host) isOlder() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.older
}

// abandon notes that the host has to end its side of a session, unless that is 0.
func (h *host) abandon(session uint64) {
	if session != 0 && len(h.ended) < mostEnded {
		h.ended = append(h.ended, session)
	}
}

// mostEnded bounds the sessions that wait for a conversation. The host ends others by itself after some time.
const mostEnded = 256

// leaveEnded has the host end the sessions that have ended here since the last time.
func (h *host) leaveEnded(conv exchange.Conversation) {
	h.k.mu.Lock()
	ended := h.ended
	h.ended = nil
	h.k.mu.Unlock()
	for _, session := range ended {
		_ = conv.Leave(session) // the end of the conversation says it too
	}
}

// mayHaveEnded reports whether the host may have ended the pairs by now though their probes come: a host of an older release does
// so some time after the conversation was lost.
func (h *host) mayHaveEnded(now int64) bool {
	return h.older && h.lost != 0 && now-h.lost >= int64(olderKeepsFor)
}

// held returns the sessions with the host that go on.
func (h *host) held() (held exchange.Held) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		if s := pr.current(); s != 0 {
			held.Sessions = append(held.Sessions, s)
		}
	}
	for _, p := range h.k.ports {
		if p.info.Epoch != 0 {
			held.Epochs = append(held.Epochs, p.info.Epoch)
		}
	}
	return held
}

func (h *host) digest() string {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.k.list.Digest()
}

// heard notes that there is a conversation.
func (h *host) heard() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	h.unheard, h.lost = verdict.ReasonNone, 0
	for _, pr := range h.pairs {
		pr.due = 0
	}
}

var errEnded = errors.New("the host has ended the conversation")

// next returns the pair that is to be met now, or how long until one may be.
func (h *host) next() (*pair, time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	now, wait := h.k.cfg.Mono(), lastRetry
	for _, pr := range h.pairs {
		due, ok := pr.wants()
		switch {
		case h.isMeeting(pr.port.device): // its end wakes
		case ok && due <= now:
			return pr, 0
		case ok:
			wait = min(wait, time.Duration(due-now))
		}
	}
	return nil, wait
}

// isMeeting reports whether a pair of a device is being met.
func (h *host) isMeeting(device string) bool {
	return slices.ContainsFunc(h.pairs, func(pr *pair) bool { return pr.meeting && pr.port.device == device })
}

// changed handles a change of one of the host's own ports.
func (h *host) changed(c exchange.Change) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		pr.again = pr.again || pr.meeting
		switch {
		case pr.reason != verdict.ReasonNone:
			if c.Epoch != 0 {
				pr.due = 0
			}
		case c.Epoch != 0 && c.Device == pr.port.device && c.Port == pr.port.number && c.Device != pr.remote.Device:
			pr.makeStale() // it was made by position, and now the host has a device of its name
		default:
			pr.epochIs(c.Device, c.Port, c.Epoch)
		}
	}
}

// epochIs notes the epoch of a port of the peer. Without a Fabric the port has none, and is met again when it has one.
func (pr *pair) epochIs(device string, number int, epoch uint64) {
	if pr.remote.Device != device || pr.remote.Port != number || epoch == 0 || epoch == pr.remote.Epoch {
		return
	}
	pr.makeStale()
}

// ask asks the host's process for its state as long as both witnesses of a pair with it are silent.
func (h *host) ask(peer exchange.Peer) {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.silent:
		}
		began := h.k.cfg.Mono()
		for h.isUnanswered() {
			wait, patience := stateOften, stateTimeout
			if h.k.cfg.Mono()-began > int64(stateOftenFor) {
				wait, patience = stateSeldom, stateSlowTimeout
			}
			h.askOnce(peer, patience)
			if sleep(h.ctx, wait) != nil {
				return
			}
		}
	}
}

func (h *host) isUnanswered() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		if pr.isUnanswered() {
			return true
		}
	}
	return false
}

func (h *host) askOnce(peer exchange.Peer, patience time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	state, err := peer.State(ctx, h.held().Sessions)
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if err != nil {
		h.refused(exchange.ReasonOf(err))
		return
	}
	if h.unheard != verdict.ReasonNone {
		h.reached.Send()
	}
	for _, pr := range h.pairs {
		pr.hear(&state)
	}
}

// refused ends the silent pairs with a host whose process answers and refuses to: it is not down, and whether it still has its ends
// of them is not known.
func (h *host) refused(why verdict.Reason) {
	if why == verdict.ReasonNoResponder {
		return
	}
	for _, pr := range h.pairs {
		if pr.isUnanswered() {
			pr.makeStale()
			pr.failed(why)
		}
	}
}

// hear takes what the peer's process says of its port. A process that has no worker for an active port, or a new one, says nothing
// of the way to the one that was met, nor does one that has ended its end of the session.
func (pr *pair) hear(state *exchange.State) {
	i := slices.IndexFunc(state.Ports, func(s exchange.PortState) bool { return s.Device == pr.remote.Device && s.Port == pr.remote.Port })
	if i < 0 {
		pr.gone, pr.answer = true, 0
		return
	}
	s := &state.Ports[i]
	pr.gone, pr.answer = false, 0
	switch active := s.State == verbs.PortActive; {
	case active && s.Epoch != pr.remote.Epoch:
		pr.gone = true
		pr.epochIs(s.Device, s.Port, s.Epoch)
	case active && pr.current() != 0 && !pr.isHeldBy(state):
		pr.makeStale()
	default:
		pr.said, pr.answer = s.State, pr.port.k.cfg.Mono()
		pr.epochIs(s.Device, s.Port, s.Epoch)
	}
}

// isHeldBy reports whether the peer has its end of the session. A host of an older release does not say so; it keeps its end at least
// as long as the conversation.
func (pr *pair) isHeldBy(state *exchange.State) bool {
	if !state.Knows {
		return pr.host.unheard == verdict.ReasonNone
	}
	return !slices.Contains(state.Lacking, pr.current())
}
