package pairs

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// connectAttempt is one attempt to connect a pair, with the state at its beginning.
type connectAttempt struct {
	pair            *pair
	orders          Orders
	epoch           uint64 // of this host's port
	offer           exchange.Offer
	previousSession uint64 // the previous session; 0: none
}

// psnMask selects the 24 bits of a packet sequence number (InfiniBand specification, 9.2.4).
const psnMask = 0xffffff

// connectPair tries to connect a pair. This host's worker creates its end, the peer creates and connects its own end, and then this host's
// worker connects. ctx ends with the conversation.
func (h *peerHost) connectPair(ctx context.Context, conv exchange.Conversation, m *connectAttempt) {
	defer h.finishAttempt(m.pair)
	var err error
	if m.offer.RC, err = m.sendOrder(ctx, verbs.FabricOrder{Offer: true, Role: verbs.FabricProbes}); err != nil {
		h.handleOwnFailure(m, err)
		return
	}
	answering, cancel := context.WithTimeout(ctx, offerTimeout)
	answer, err := conv.Offer(answering, m.offer)
	cancel()
	if err != nil {
		m.markStale() // without an answer it is unknown whether the peer has replaced its end
		m.abandonOffer(h.ctx, exchange.ReasonOf(err))
		return
	}
	if answer.Reason != verdict.ReasonNone {
		if isPermanent(answer.Reason) {
			m.markStale()
		}
		m.abandonOffer(h.ctx, answer.Reason)
		return
	}
	if err := m.joinPair(ctx, &answer); err != nil {
		_ = conv.Leave(m.offer.Session)
		m.markStale()
		h.handleOwnFailure(m, err)
		return
	}
	if m.previousSession != 0 {
		_ = conv.Leave(m.previousSession) // an error means that the conversation has ended
	}
}

// isPermanent reports whether a refusal to reconnect a pair also ends its current session.
func isPermanent(why verdict.Reason) bool {
	switch why {
	case verdict.ReasonUnsupported, verdict.ReasonNoCommonGID, verdict.ReasonPKey:
		return true
	}
	return false
}

// beginAttempt begins an attempt to connect a pair. It returns false if the pair no longer has to be connected.
func (h *peerHost) beginAttempt(pr *pair) (*connectAttempt, bool) {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := pr.wantsConnect(); !ok {
		return nil, false
	}
	pr.connecting, pr.changedMeanwhile, pr.disconnected = true, false, false
	now := k.cfg.Mono()
	pr.nextAttempt = now + int64(pr.retry.next(k.cfg.Random))
	m := &connectAttempt{pair: pr, orders: k.cfg.Orders(pr.port.device), epoch: pr.port.info.Epoch, previousSession: pr.session}
	m.offer = exchange.Offer{
		Session: k.cfg.Random() | 1, Port: k.portForPeers(pr.port), PSN: uint32(k.cfg.Random()) & psnMask, Devices: k.probingDevices(),
	}
	return m, true
}

// finishAttempt records that an attempt to connect has ended, whether it succeeded or failed, or that the worker has ended a pair.
func (h *peerHost) finishAttempt(pr *pair) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	pr.connecting = false
	h.wake.Send()
}

// markStale records that the peer has ended its end of the previous session.
func (m *connectAttempt) markStale() {
	k := m.pair.port.k
	k.mu.Lock()
	defer k.mu.Unlock()
	m.pair.stale = true
}

// firstRoundDelay returns the time from now to the first round of the pair in a slot. The van der Corput sequence spreads the rounds of a port
// evenly over the interval for any number of pairs. The smaller the gaps between rounds, the sooner the first pair detects a cut link.
func (k *Keeper) firstRoundDelay(slot int, now int64) time.Duration {
	interval := int64(k.cfg.Interval)
	at := k.firstSlotOffset + interval*int64(bits.Reverse16(uint16(slot)))>>16
	return time.Duration(((at-now)%interval + interval) % interval)
}

// sendOrder sends an order for the pair's slot to this host's worker and waits until it is carried out.
func (m *connectAttempt) sendOrder(ctx context.Context, o verbs.FabricOrder) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	o.Port, o.Epoch, o.Pair = m.pair.port.number, m.epoch, m.pair.slot
	return m.orders.Order(ctx, o)
}

// joinPair connects this host's end of the pair to the peer's end. Facts of the new session may arrive before joinPair returns.
func (m *connectAttempt) joinPair(ctx context.Context, a *exchange.Answer) error {
	peer, reason := addressPeer(&m.offer.Port.FabricPort, &a.Port.FabricPort, false, m.pair.host.isOlder())
	if reason != verdict.ReasonNone {
		return reasonError(reason)
	}
	peer.Host, peer.Device, peer.Port, peer.Role = m.pair.host.Name, a.Port.Device, a.Port.Port, verbs.FabricProbes
	peer.Session, peer.RC, peer.PSN, peer.OwnPSN = m.offer.Session, a.RC, a.PSN, m.offer.PSN
	k := m.pair.port.k
	k.mu.Lock()
	m.pair.pendingSession = m.offer.Session
	peer.First = k.firstRoundDelay(m.pair.slot, k.cfg.Mono())
	k.mu.Unlock()
	_, err := m.sendOrder(ctx, verbs.FabricOrder{Peer: peer})
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil:
		m.pair.pendingSession = 0
		return err
	case m.pair.port.info.Epoch != m.epoch:
		return verbs.ErrNoFabric
	}
	m.pair.hasQueuePair = true
	m.pair.setConnected(m.offer.Session, &a.Port)
	m.pair.emitIfChanged(k.cfg.Mono())
	return nil
}

// reasonError is an error for a Reason.
type reasonError verdict.Reason

// Error implements error.
func (e reasonError) Error() string { return string(e) }

// handleOwnFailure handles an error of this host's device when it creates or connects its end.
func (h *peerHost) handleOwnFailure(m *connectAttempt, err error) {
	var reason reasonError
	switch {
	case errors.Is(err, verbs.ErrNoFabric) || errors.Is(err, verbs.ErrClosed) || h.ctx.Err() != nil:
		return // a report about the port follows, and decides how the pair continues
	case errors.As(err, &reason):
		m.abandonOffer(h.ctx, verdict.Reason(reason))
		return
	}
	h.k.cfg.Log.Debug("pair: connect failed", "device", m.pair.port.device, "port", m.pair.port.number, "peer", h.Name, "error", err)
	m.abandonOffer(h.ctx, verdict.ReasonFailed)
}

// abandonOffer records why the pair could not be connected. If the pair has no other session, abandonOffer also lets the worker destroy the
// end that it created. Otherwise the session continues, and the next offer replaces that end.
func (m *connectAttempt) abandonOffer(ctx context.Context, why verdict.Reason) {
	k := m.pair.port.k
	k.mu.Lock()
	m.pair.recordFailure(why)
	ended := m.pair.session == 0
	if ended {
		m.pair.hasQueuePair = false
	}
	k.mu.Unlock()
	if ended {
		_, _ = m.sendOrder(ctx, verbs.FabricOrder{}) // if this fails, the next offer replaces the end
	}
}

// addressPeer returns how the port own of this host reaches the peer's port, or the reason why it cannot. answers is true if the peer is
// the side that probes. older is true if the peer runs an older release, which uses the first GID of each kind, whatever its network.
func addressPeer(own, peer *verbs.FabricPort, answers, older bool) (*verbs.FabricPeer, verdict.Reason) {
	out := &verbs.FabricPeer{QKey: peer.QKey, LID: peer.LID, UD: peer.UD[:min(len(peer.UD), len(own.UD))]}
	if own.LinkLayer != peer.LinkLayer {
		return nil, verdict.ReasonUnsupported
	}
	if own.LinkLayer == verbs.LinkInfiniBand && !matchingPKeys(own.PKey, peer.PKey) {
		return nil, verdict.ReasonPKey
	}
	if own.LinkLayer == verbs.LinkInfiniBand && !own.NeedsGRH && !peer.NeedsGRH && len(own.GIDs) > 0 && len(peer.GIDs) > 0 &&
		areInOneSubnet(own.GIDs[0].Raw, peer.GIDs[0].Raw) {
		return out, verdict.ReasonNone
	}
	ownGIDs, peerGIDs := own.GIDs, peer.GIDs
	if older {
		ownGIDs, peerGIDs = firstOfEachKind(ownGIDs), firstOfEachKind(peerGIDs)
	}
	from, to := rawGIDs(ownGIDs), rawGIDs(peerGIDs)
	if answers {
		from, to = to, from
	}
	i, j, ok := commonGID(from, to)
	if !ok {
		return nil, verdict.ReasonNoCommonGID
	}
	if answers {
		i, j = j, i
	}
	out.Global, out.GIDIndex, out.GID = true, ownGIDs[i].Index, peerGIDs[j].Raw
	return out, verdict.ReasonNone
}

func firstOfEachKind(gids []verbs.FabricGID) (all []verbs.FabricGID) {
	for _, g := range gids {
		if !slices.ContainsFunc(all, func(o verbs.FabricGID) bool { return areOfOneKind(o.Raw, g.Raw) }) {
			all = append(all, g)
		}
	}
	return all
}

func rawGIDs(gids []verbs.FabricGID) [][16]byte {
	var all [][16]byte
	for _, g := range gids {
		all = append(all, g.Raw)
	}
	return all
}

// leaveOrder is an order to the worker of a device to end a pair.
type leaveOrder struct {
	device string
	order  verbs.FabricOrder
	done   func() // called when the worker has answered, or has not answered in time; nil: not called
}

// leavePairs lets workers end pairs, and waits for them. Devices are handled concurrently, so that one that does not answer does not delay
// the others. It ignores errors: a worker that answers late ends the pair nevertheless, and one that has ended has no pairs.
func (k *Keeper) leavePairs(ctx context.Context, all []leaveOrder) {
	byDevice := map[string][]leaveOrder{}
	for _, l := range all {
		byDevice[l.device] = append(byDevice[l.device], l)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for device, some := range byDevice {
		running.Go(func() {
			for _, l := range some {
				ctx, cancel := context.WithTimeout(ctx, orderTimeout)
				_, _ = k.cfg.Orders(device).Order(ctx, l.order)
				cancel()
				if l.done != nil {
					l.done()
				}
			}
		})
	}
}

// leaveAllSessions asks the host to end its ends of all pairs, because this host no longer probes it.
func (h *peerHost) leaveAllSessions(conv exchange.Conversation) {
	var all []uint64
	h.k.mu.Lock()
	for _, pr := range h.pairs {
		for _, session := range []uint64{pr.session, pr.pendingSession} {
			if session != 0 {
				all = append(all, session)
			}
		}
	}
	h.k.mu.Unlock()
	for _, session := range all {
		_ = conv.Leave(session) // an error means that the conversation has ended
	}
}

// removeAllPairs lets the workers end all pairs with the host and removes the pairs, because this host no longer probes it.
func (h *peerHost) removeAllPairs() {
	var all []leaveOrder
	h.k.mu.Lock()
	for _, pr := range h.pairs {
		if pr.port.info.Epoch != 0 {
			all = append(all, pr.newLeaveOrder())
		}
	}
	h.k.mu.Unlock()
	h.k.leavePairs(h.keeperCtx, all)
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for len(h.pairs) > 0 {
		h.pairs[0].remove()
	}
	h.k.wake.Send() // slots are free
}

// leaveEndedPairs lets the workers end pairs that have no session any more while their ports still have a Fabric. It does not wait for
// them. No other pair of the device is connected meanwhile.
func (h *peerHost) leaveEndedPairs() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	var all []leaveOrder
	for _, pr := range h.pairs {
		if !pr.hasQueuePair || pr.currentSession() != 0 || h.isConnecting(pr.port.device) {
			continue
		}
		pr.hasQueuePair, pr.connecting = false, true
		l := pr.newLeaveOrder()
		l.done = func() { h.finishAttempt(pr) }
		all = append(all, l)
	}
	if len(all) > 0 {
		h.leaving.Go(func() { h.k.leavePairs(h.keeperCtx, all) })
	}
}

func (pr *pair) newLeaveOrder() leaveOrder {
	return leaveOrder{device: pr.port.device, order: verbs.FabricOrder{Port: pr.port.number, Epoch: pr.port.info.Epoch, Pair: pr.slot}}
}
