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

// peerHost is a host that this host probes. One goroutine holds the conversation with it, and another one requests its state while a pair is
// silent.
type peerHost struct {
	pinglist.Peer
	k         *Keeper
	keeperCtx context.Context //nolint:containedctx // it is the context of the Keeper; the workers end after it
	ctx       context.Context //nolint:containedctx // it ends the goroutines of this peerHost
	cancel    context.CancelFunc
	wake      wake.Signal    // holds a token when a pair may have to be connected
	silent    wake.Signal    // holds a token when both echo and write of a pair are silent
	leaving   sync.WaitGroup // the goroutines of leaveEndedPairs
	reached   wake.Signal    // holds a token when the host's process has answered a State request while there is no conversation

	// Guarded by Keeper.mu.
	pairs            []*pair
	disconnectReason verdict.Reason // why there is no conversation
	older            bool           // the host runs a release that does not name sessions
	disconnectedAt   int64          // time at which the last conversation ended, CLOCK_MONOTONIC ns; 0: one is open, or there was none
	queuedLeaves     []uint64       // sessions that the host has to end
}

// newPeerHost returns a peerHost. It starts no goroutine.
func (k *Keeper) newPeerHost(ctx context.Context, p pinglist.Peer) *peerHost {
	h := &peerHost{Peer: p, k: k, keeperCtx: ctx, wake: wake.New(), silent: wake.New(), reached: wake.New()}
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h
}

// updatePairWith adds the pair of the host with a port of this host if it is missing, or removes it if the port is no longer used.
func (h *peerHost) updatePairWith(p *port) {
	free := -1
	for slot, pr := range p.pairs {
		switch {
		case pr != nil && pr.host == h:
			if !p.isUsed() {
				pr.remove()
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
		host: h, port: p, slot: free, reason: verdict.ReasonStarting, disconnectedSince: h.k.cfg.Mono(), tracker: verdict.NewTracker(verbs.MaxFabricPaths),
		write: aggregate.NewWindow(h.k.cfg.Window), echoes: aggregate.NewWindow(h.k.cfg.Window),
	}
	if h.disconnectReason != verdict.ReasonNone {
		pr.reason = h.disconnectReason
	}
	if p.info.Epoch == 0 {
		pr.reason = verdict.ReasonOwnPort
	}
	p.pairs[free] = pr
	h.pairs = append(h.pairs, pr)
	h.k.sumsOfGroup(&h.Peer)
	h.wake.Send()
}

// remove removes the pair. Its port and group keep its counts.
func (pr *pair) remove() {
	pr.tracker.EndSession()
	c := pr.tracker.Counts()
	pr.port.removedPairs.Add(&c)
	pr.port.k.sumsOfGroup(&pr.host.Peer).removedPairs.Add(&c)
	pr.port.pairs[pr.slot] = nil
	for i, o := range pr.host.pairs {
		if o == pr {
			pr.host.pairs = append(pr.host.pairs[:i:i], pr.host.pairs[i+1:]...)
			break
		}
	}
}

// runConversations holds one conversation after the other until this host should no longer probe the peer.
func (h *peerHost) runConversations() {
	asked := make(chan struct{})
	peer, err := h.k.cfg.Network.Peer(h.Host)
	if err != nil {
		h.recordDisconnect(err)
		<-h.ctx.Done()
		h.removeAllPairs()
		return
	}
	go func() {
		defer close(asked)
		h.pollStateWhileSilent(peer)
	}()
	var retry backoff
	for h.ctx.Err() == nil {
		began := h.k.cfg.Mono()
		err := h.holdConversation(peer)
		if h.k.cfg.Mono()-began > int64(lastRetry) {
			retry.reset()
		}
		h.recordDisconnect(err)
		h.waitForRetry(h.retryDelay(err, &retry))
	}
	<-asked
	h.leaving.Wait()
	_ = peer.Close()
	h.removeAllPairs()
}

// retryDelay returns the time to wait before the next conversation.
func (h *peerHost) retryDelay(err error, retry *backoff) time.Duration {
	if errors.Is(err, exchange.ErrNotListed) || errors.Is(err, exchange.ErrVersion) || errors.Is(err, exchange.ErrKey) {
		return lastRetry - time.Duration(h.k.cfg.Random()%uint64(lastRetry/4))
	}
	return retry.next(h.k.cfg.Random)
}

// waitForRetry waits until the next conversation may begin: for lasting, or for firstRetry if the host's process answers a State request.
// Meanwhile it lets the workers leave the pairs that have ended.
func (h *peerHost) waitForRetry(lasting time.Duration) {
	began := h.k.cfg.Mono()
	for h.ctx.Err() == nil {
		h.leaveEndedPairs()
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

// recordDisconnect records why there is no conversation with the host. Connected pairs continue without one.
func (h *peerHost) recordDisconnect(err error) {
	if err == nil || h.ctx.Err() != nil {
		return
	}
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	why := exchange.ReasonOf(err)
	if h.disconnectReason == verdict.ReasonNone {
		h.disconnectedAt = h.k.cfg.Mono()
	}
	if why != h.disconnectReason {
		h.k.cfg.Log.Debug("peer: no conversation", "host", h.Name, "reason", string(why), "error", err)
	}
	h.disconnectReason = why
	for _, pr := range h.pairs {
		pr.disconnected = true
		if why == verdict.ReasonNotListed {
			pr.stale = true // the host has ended its end of the pair
		}
		if pr.reason != verdict.ReasonOwnPort {
			pr.recordFailure(why)
		}
	}
}

// holdConversation holds one conversation and returns the error that ended it. During the conversation it connects pairs that are due and handles
// changes of the host's ports.
func (h *peerHost) holdConversation(peer exchange.Peer) error {
	ctx, cancel := context.WithTimeout(h.ctx, converseTimeout)
	conv, err := peer.Converse(ctx, h.listDigest())
	cancel()
	if err != nil {
		return err
	}
	defer conv.Close()
	if err := h.reconcileSessions(conv); err != nil {
		return err
	}
	h.recordConversation()
	// Each device connects its pairs independently, so that a device whose firmware hangs does not delay the others.
	var meetings sync.WaitGroup
	defer meetings.Wait()
	ctx, cancel = context.WithCancel(h.ctx)
	defer cancel()
	for {
		h.leaveEndedPairs()
		h.sendQueuedLeaves(conv)
		if pr, wait := h.nextPairToConnect(); pr != nil {
			if h.k.awaitTurn(ctx) == nil {
				if m, ok := h.beginAttempt(pr); ok {
					meetings.Go(func() { h.connectPair(ctx, conv, m) })
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
				h.handleChange(c)
			}
			t.Stop()
		}
		if h.ctx.Err() != nil {
			h.leaveAllSessions(conv)
			return h.ctx.Err()
		}
	}
}

// reconcileSessions agrees with the host on the sessions that continue. A host that runs an older release continues only sessions that were
// offered in the open conversation, so all its pairs are reconnected.
func (h *peerHost) reconcileSessions(conv exchange.Conversation) error {
	ctx, cancel := context.WithTimeout(h.ctx, converseTimeout)
	defer cancel()
	held := h.heldSessions()
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
		if slices.Contains(lacking, pr.currentSession()) {
			pr.markStale()
		}
	}
	return nil
}

func (h *peerHost) isOlder() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.older
}

// queueLeave queues a session that the host has to end. It ignores session 0.
func (h *peerHost) queueLeave(session uint64) {
	if session != 0 && len(h.queuedLeaves) < maxQueuedLeaves {
		h.queuedLeaves = append(h.queuedLeaves, session)
	}
}

// maxQueuedLeaves limits the sessions that wait for a conversation. The host ends further sessions by itself after some time.
const maxQueuedLeaves = 256

// sendQueuedLeaves asks the host to end the queued sessions.
func (h *peerHost) sendQueuedLeaves(conv exchange.Conversation) {
	h.k.mu.Lock()
	ended := h.queuedLeaves
	h.queuedLeaves = nil
	h.k.mu.Unlock()
	for _, session := range ended {
		_ = conv.Leave(session) // an error means that the conversation has ended
	}
}

// mayHaveEnded reports whether the host may have ended its pairs although it receives their probes. A host that runs an older release does so
// some time after a lost conversation.
func (h *peerHost) mayHaveEnded(now int64) bool {
	return h.older && h.disconnectedAt != 0 && now-h.disconnectedAt >= int64(olderPeerKeepsFor)
}

// heldSessions returns the sessions with the host that continue, and the epochs of this host's ports.
func (h *peerHost) heldSessions() (held exchange.Held) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		if s := pr.currentSession(); s != 0 {
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

func (h *peerHost) listDigest() string {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.k.ownList.Digest()
}

// recordConversation records that a conversation is open, and makes all pairs due.
func (h *peerHost) recordConversation() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	h.disconnectReason, h.disconnectedAt = verdict.ReasonNone, 0
	for _, pr := range h.pairs {
		pr.nextAttempt = 0
	}
}

var errEnded = errors.New("the host has ended the conversation")

// nextPairToConnect returns a pair to connect now, or nil and the time until the next pair is due.
func (h *peerHost) nextPairToConnect() (*pair, time.Duration) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	now, wait := h.k.cfg.Mono(), lastRetry
	for _, pr := range h.pairs {
		due, ok := pr.wantsConnect()
		switch {
		case h.isConnecting(pr.port.device): // finishAttempt wakes this goroutine
		case ok && due <= now:
			return pr, 0
		case ok:
			wait = min(wait, time.Duration(due-now))
		}
	}
	return nil, wait
}

// isConnecting reports whether a pair of a device is being connected.
func (h *peerHost) isConnecting(device string) bool {
	return slices.ContainsFunc(h.pairs, func(pr *pair) bool { return pr.connecting && pr.port.device == device })
}

// handleChange handles a change of a port of the peer.
func (h *peerHost) handleChange(c exchange.Change) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		pr.changedMeanwhile = pr.changedMeanwhile || pr.connecting
		switch {
		case pr.reason != verdict.ReasonNone:
			if c.Epoch != 0 {
				pr.nextAttempt = 0
			}
		case c.Epoch != 0 && c.Device == pr.port.device && c.Port == pr.port.number && c.Device != pr.remote.Device:
			pr.markStale() // it was connected by position, and now the host has a device of the same name
		default:
			pr.updatePeerEpoch(c.Device, c.Port, c.Epoch)
		}
	}
}

// updatePeerEpoch marks the pair stale if the connected port of the peer has a new epoch. Epoch 0 means that the port has no Fabric now; the pair
// is reconnected when it has one.
func (pr *pair) updatePeerEpoch(device string, number int, epoch uint64) {
	if pr.remote.Device != device || pr.remote.Port != number || epoch == 0 || epoch == pr.remote.Epoch {
		return
	}
	pr.markStale()
}

// pollStateWhileSilent requests the state of the host's process while both echo and write of one of its pairs are silent.
func (h *peerHost) pollStateWhileSilent(peer exchange.Peer) {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-h.silent:
		}
		began := h.k.cfg.Mono()
		for h.hasUnansweredPair() {
			wait, patience := statePollInterval, stateTimeout
			if h.k.cfg.Mono()-began > int64(statePollFastFor) {
				wait, patience = statePollSlowInterval, stateSlowTimeout
			}
			h.pollState(peer, patience)
			if sleep(h.ctx, wait) != nil {
				return
			}
		}
	}
}

func (h *peerHost) hasUnansweredPair() bool {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for _, pr := range h.pairs {
		if pr.isUnanswered() {
			return true
		}
	}
	return false
}

func (h *peerHost) pollState(peer exchange.Peer, patience time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	state, err := peer.State(ctx, h.heldSessions().Sessions)
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if err != nil {
		h.handleRefusal(exchange.ReasonOf(err))
		return
	}
	if h.disconnectReason != verdict.ReasonNone {
		h.reached.Send()
	}
	for _, pr := range h.pairs {
		pr.applyState(&state)
	}
}

// handleRefusal ends the silent pairs with a host whose process refuses a State request. Such a host is not down, and it is unknown whether it
// still has its ends of the pairs.
func (h *peerHost) handleRefusal(why verdict.Reason) {
	if why == verdict.ReasonNoResponder {
		return
	}
	for _, pr := range h.pairs {
		if pr.isUnanswered() {
			pr.markStale()
			pr.recordFailure(why)
		}
	}
}

// applyState evaluates a State answer of the peer's process. The answer is no evidence about the path if the peer has no worker for an active
// port, has a new worker, or has ended its end of the session.
func (pr *pair) applyState(state *exchange.State) {
	i := slices.IndexFunc(state.Ports, func(s exchange.PortState) bool { return s.Device == pr.remote.Device && s.Port == pr.remote.Port })
	if i < 0 {
		pr.peerGone, pr.lastAnswer = true, 0
		pr.markStale() // the device was removed or renamed: another one may take its place
		return
	}
	s := &state.Ports[i]
	pr.peerGone, pr.lastAnswer = false, 0
	switch active := s.State == verbs.PortActive; {
	case active && s.Epoch != pr.remote.Epoch:
		pr.peerGone = true
		pr.updatePeerEpoch(s.Device, s.Port, s.Epoch)
	case active && pr.currentSession() != 0 && !pr.isSessionHeld(state):
		pr.markStale()
	default:
		pr.peerState, pr.lastAnswer = s.State, pr.port.k.cfg.Mono()
		pr.updatePeerEpoch(s.Device, s.Port, s.Epoch)
	}
}

// isSessionHeld reports whether the peer still has its end of the session. A host that runs an older release does not report this; it keeps
// its end at least until the conversation ends.
func (pr *pair) isSessionHeld(state *exchange.State) bool {
	if !state.LackingKnown {
		return pr.host.disconnectReason == verdict.ReasonNone
	}
	return !slices.Contains(state.Lacking, pr.currentSession())
}
