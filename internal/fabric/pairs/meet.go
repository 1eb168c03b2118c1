package pairs

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// meeting is one attempt to meet, with what was true when it began.
type meeting struct {
	pair   *pair
	orders Orders
	epoch  uint64 // of the own port
	offer  exchange.Offer
	old    uint64 // the session before; 0: there was none
}

// psnMask: a packet sequence number has 24 bits (InfiniBand specification, 9.2.4).
const psnMask = 0xffffff

// meet tries to meet a pair: the own end first, then the peer's, and then they are connected. ctx ends with the conversation.
func (h *host) meet(ctx context.Context, conv exchange.Conversation, m *meeting) {
	defer h.finish(m.pair)
	var err error
	if m.offer.RC, err = m.order(ctx, verbs.FabricOrder{Offer: true, Role: verbs.FabricProbes}); err != nil {
		h.unable(m, err)
		return
	}
	answering, cancel := context.WithTimeout(ctx, offerTimeout)
	answer, err := conv.Offer(answering, m.offer)
	cancel()
	if err != nil {
		m.makeStale() // perhaps: the answer has not come
		m.giveUp(h.ctx, exchange.ReasonOf(err))
		return
	}
	if answer.Reason != verdict.ReasonNone {
		if isLasting(answer.Reason) {
			m.makeStale()
		}
		m.giveUp(h.ctx, answer.Reason)
		return
	}
	if err := m.join(ctx, &answer); err != nil {
		_ = conv.Leave(m.offer.Session)
		m.makeStale()
		h.unable(m, err)
		return
	}
	if m.old != 0 {
		_ = conv.Leave(m.old) // the end of the conversation says it too
	}
}

// isLasting reports whether a pair that a peer refuses to meet again for a reason does not go on with what it has.
func isLasting(why verdict.Reason) bool {
	switch why {
	case verdict.ReasonUnsupported, verdict.ReasonNoCommonGID, verdict.ReasonPKey:
		return true
	}
	return false
}

// begin notes what the pair is to meet with. It returns false if it need not be met any more.
func (h *host) begin(pr *pair) (*meeting, bool) {
	k := h.k
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := pr.wants(); !ok {
		return nil, false
	}
	pr.meeting, pr.again, pr.apart = true, false, false
	now := k.cfg.Mono()
	pr.due = now + int64(pr.retry.next(k.cfg.Random))
	m := &meeting{pair: pr, orders: k.cfg.Orders(pr.port.device), epoch: pr.port.info.Epoch, old: pr.session}
	m.offer = exchange.Offer{
		Session: k.cfg.Random() | 1, Port: k.describe(pr.port), PSN: uint32(k.cfg.Random()) & psnMask, Devices: k.positions(),
	}
	return m, true
}

// finish notes that an attempt to meet is over, however it went.
func (h *host) finish(pr *pair) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	pr.meeting = false
	h.wake.Send()
}

// makeStale notes that the peer has ended its end of the session before.
func (m *meeting) makeStale() {
	k := m.pair.port.k
	k.mu.Lock()
	defer k.mu.Unlock()
	m.pair.stale = true
}

// phase returns how long it is from now to the first round of the pair in a place. The rounds of a port are spread over the
// interval, however many they are (the van der Corput sequence): the fewer milliseconds lie between two rounds, the sooner the first
// pair finds that a link is cut.
func (k *Keeper) phase(slot int, now int64) time.Duration {
	interval := int64(k.cfg.Interval)
	at := k.begins + interval*int64(bits.Reverse16(uint16(slot)))>>16
	return time.Duration(((at-now)%interval + interval) % interval)
}

// order has the own worker carry out an order for the place of the pair.
func (m *meeting) order(ctx context.Context, o verbs.FabricOrder) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	o.Port, o.Epoch, o.Pair = m.pair.port.number, m.epoch, m.pair.slot
	return m.orders.Order(ctx, o)
}

// join connects the pair's own end with the peer's. Facts of the new session may come before it returns.
func (m *meeting) join(ctx context.Context, a *exchange.Answer) error {
	peer, reason := reach(&m.offer.Port.FabricPort, &a.Port.FabricPort, false, m.pair.host.isOlder())
	if reason != verdict.ReasonNone {
		return reasonError(reason)
	}
	peer.Host, peer.Device, peer.Port, peer.Role = m.pair.host.Name, a.Port.Device, a.Port.Port, verbs.FabricProbes
	peer.Session, peer.RC, peer.PSN, peer.OwnPSN = m.offer.Session, a.RC, a.PSN, m.offer.PSN
	k := m.pair.port.k
	k.mu.Lock()
	m.pair.joined = m.offer.Session
	peer.First = k.phase(m.pair.slot, k.cfg.Mono())
	k.mu.Unlock()
	_, err := m.order(ctx, verbs.FabricOrder{Peer: peer})
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil:
		m.pair.joined = 0
		return err
	case m.pair.port.info.Epoch != m.epoch:
		return verbs.ErrNoFabric
	}
	m.pair.runs = true
	m.pair.met(m.offer.Session, &a.Port)
	m.pair.show(k.cfg.Mono())
	return nil
}

// reasonError is a Reason as an error.
type reasonError verdict.Reason

// Error implements error.
func (e reasonError) Error() string { return string(e) }

// unable notes that the own device could not make or connect its end.
func (h *host) unable(m *meeting, err error) {
	var reason reasonError
	switch {
	case errors.Is(err, verbs.ErrNoFabric) || errors.Is(err, verbs.ErrClosed) || h.ctx.Err() != nil:
		return // the port says why, and how it goes on
	case errors.As(err, &reason):
		m.giveUp(h.ctx, verdict.Reason(reason))
		return
	}
	h.k.cfg.Log.Debug("a pair cannot be connected", "device", m.pair.port.device, "port", m.pair.port.number, "peer", h.Name, "error", err)
	m.giveUp(h.ctx, verdict.ReasonFailed)
}

// giveUp drops what was offered, and notes why the pair could not meet. A pair that goes on without is left alone: what was
// offered is replaced by the next offer.
func (m *meeting) giveUp(ctx context.Context, why verdict.Reason) {
	k := m.pair.port.k
	k.mu.Lock()
	m.pair.failed(why)
	ended := m.pair.session == 0
	if ended {
		m.pair.runs = false
	}
	k.mu.Unlock()
	if ended {
		_, _ = m.order(ctx, verbs.FabricOrder{}) // nothing more can be done about it than the next offer does
	}
}

// reach says how a pair's own port reaches the peer's. answers: the peer is the one that probes. older: the peer runs an older
// release, which takes the first GIDs of a kind whatever their networks.
func reach(own, peer *verbs.FabricPort, answers, older bool) (*verbs.FabricPeer, verdict.Reason) {
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
	from, to := raw(ownGIDs), raw(peerGIDs)
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

func raw(gids []verbs.FabricGID) [][16]byte {
	var all [][16]byte
	for _, g := range gids {
		all = append(all, g.Raw)
	}
	return all
}

// leaving is the order by which the worker of a device ends a pair.
type leaving struct {
	device string
	order  verbs.FabricOrder
}

// leave has a worker end a pair that is not wanted any more. There is nothing to be done if it cannot.
func (k *Keeper) leave(ctx context.Context, l leaving) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	_, _ = k.cfg.Orders(l.device).Order(ctx, l.order)
}

// leaveAll has the host end its side of all pairs with it, which is not to be probed any more.
func (h *host) leaveAll(conv exchange.Conversation) {
	var all []uint64
	h.k.mu.Lock()
	for _, pr := range h.pairs {
		for _, session := range []uint64{pr.session, pr.joined} {
			if session != 0 {
				all = append(all, session)
			}
		}
	}
	h.k.mu.Unlock()
	for _, session := range all {
		_ = conv.Leave(session) // the end of the conversation says it too
	}
}

// stopAll has the workers end all pairs with the host, which is not to be probed any more, and forgets the pairs.
func (h *host) stopAll() {
	var all []leaving
	h.k.mu.Lock()
	for _, pr := range h.pairs {
		if pr.port.info.Epoch != 0 {
			all = append(all, pr.leaving())
		}
	}
	h.k.mu.Unlock()
	for _, l := range all {
		h.k.leave(h.keeping, l)
	}
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	for len(h.pairs) > 0 {
		h.pairs[0].drop()
	}
	h.k.wake.Send() // places are free
}

// stopParted has the workers end the pairs that go on no more while their ports do.
func (h *host) stopParted() {
	var all []leaving
	h.k.mu.Lock()
	for _, pr := range h.pairs {
		if pr.runs && pr.current() == 0 && !h.isMeeting(pr.port.device) {
			pr.runs = false
			all = append(all, pr.leaving())
		}
	}
	h.k.mu.Unlock()
	for _, l := range all {
		h.k.leave(h.keeping, l)
	}
}

func (pr *pair) leaving() leaving {
	return leaving{pr.port.device, verbs.FabricOrder{Port: pr.port.number, Epoch: pr.port.info.Epoch, Pair: pr.slot}}
}
