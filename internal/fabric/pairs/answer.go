package pairs

import (
	"context"
	"errors"
	"slices"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// responder is this host's end of a pair that another host probes. Keeper.mu guards it. Times are CLOCK_MONOTONIC ns, and 0 means never.
type responder struct {
	host          string
	offer         *exchange.Offer
	session       uint64
	busy          bool   // it is being connected or ended
	ended         bool   // its host has ended the session
	conversations int    // open conversations in which it was offered or reconciled
	orphanSince   int64  // time at which the last of these conversations ended; 0: one is open
	echoes        uint64 // number of echoes, as counted by the worker
	lastEcho      int64  // time at which this number last grew
	unlistedSince int64  // time since which the list lacks its host; 0: the list has it
}

// quietSince returns the last time at which a conversation or a probe showed that the host still uses the responder.
func (a *responder) quietSince() int64 { return max(a.orphanSince, a.lastEcho) }

// isReclaimable reports whether the responder's slot may be given to another pair.
func (a *responder) isReclaimable(now int64) bool {
	return a.ended || a.orphanSince != 0 && now-a.quietSince() > int64(reclaimAfter)
}

// Listed implements exchange.Handler.
func (k *Keeper) Listed(host string) (digest string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok = k.ownList.Host(host)
	return k.ownList.Digest(), ok
}

// AnswerOffer implements exchange.Handler.
func (k *Keeper) AnswerOffer(ctx context.Context, host string, o exchange.Offer) exchange.Answer {
	p, slot, why := k.awaitSlot(ctx, host, &o)
	if why != verdict.ReasonNone {
		return exchange.Answer{Reason: why}
	}
	a, err := k.connectResponder(ctx, p, slot, host, &o)
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := p.responders[slot] // another responder or nil if the port has a new Fabric
	if err == nil && p.info.Epoch == a.Port.Epoch && mine != nil && mine.session == o.Session {
		mine.busy = false
		if mine.ended {
			k.wake.Send()
		}
		return a
	}
	if mine != nil && mine.session == o.Session {
		p.responders[slot] = nil
		k.signalFreedSlots()
	}
	var reason reasonError
	switch {
	case errors.As(err, &reason):
		return exchange.Answer{Reason: verdict.Reason(reason)}
	case err == nil || errors.Is(err, verbs.ErrNoFabric):
		return exchange.Answer{Reason: verdict.ReasonNotActive}
	}
	k.cfg.Log.Debug("responder: connect failed", "device", p.device, "port", p.number, "peer", host, "error", err)
	return exchange.Answer{Reason: verdict.ReasonFailed}
}

// awaitSlot does what reserveSlot does. If all slots are taken and the worker is ending a pair, it waits for that slot, for as long as the
// peer waits for its answer: a host that replaces a session ends the old one right before it offers the new one.
func (k *Keeper) awaitSlot(ctx context.Context, host string, o *exchange.Offer) (*port, int, verdict.Reason) {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	for {
		k.mu.Lock()
		p, slot, why := k.reserveSlot(host, o)
		freed := k.slotFreed
		ending := why == verdict.ReasonFull && slices.ContainsFunc(p.responders[:], func(a *responder) bool { return a.busy && a.ended })
		k.mu.Unlock()
		if !ending {
			return p, slot, why
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, 0, why
		}
	}
}

// reserveSlot finds the port for an offer and reserves a slot of its Fabric. The caller holds k.mu.
func (k *Keeper) reserveSlot(host string, o *exchange.Offer) (*port, int, verdict.Reason) {
	p := k.matchPort(host, o)
	switch {
	case p == nil || p.info.Unable:
		return nil, 0, verdict.ReasonUnsupported
	case p.info.Epoch == 0:
		return nil, 0, verdict.ReasonNotActive
	}
	slot := p.findSlot(host, o)
	if slot < 0 {
		return p, 0, verdict.ReasonFull
	}
	p.responders[slot] = &responder{host: host, offer: o, session: o.Session, busy: true, conversations: 1}
	return p, slot, verdict.ReasonNone
}

// matchPort returns the port to connect to an offered port: the port of the device with the same name. If the two hosts have no device name
// in common, it is the port of the device in the same position. matchPort returns nil if there is none.
func (k *Keeper) matchPort(host string, o *exchange.Offer) *port {
	devices := k.probingDevices()
	isOwn := func(device string) bool { return slices.Contains(devices, device) }
	switch {
	case isOwn(o.Port.Device):
		return k.findPort(o.Port.Device, o.Port.Port)
	case slices.ContainsFunc(o.Devices, isOwn), slices.ContainsFunc(k.devicesOf(host), isOwn):
		return nil
	case o.Port.Position < 0 || o.Port.Position >= len(devices):
		return nil
	}
	return k.findPort(devices[o.Port.Position], o.Port.Port)
}

// devicesOf returns the names of a host's devices that this host answers, without those whose sessions the host has ended. A host that
// runs an older release does not send the names of all its devices.
func (k *Keeper) devicesOf(host string) (all []string) {
	for _, p := range k.ports {
		for _, a := range p.responders {
			if a != nil && a.host == host && !a.ended {
				all = append(all, a.offer.Port.Device)
			}
		}
	}
	return all
}

// findSlot returns the slot for an offer: the slot of the same Fabric of the peer, whose responder is then replaced; else a free slot; else
// the slot of the reclaimable responder that has been quiet for longest. It returns -1 if there is none.
func (p *port) findSlot(host string, o *exchange.Offer) int {
	free, left := -1, -1
	now := p.k.cfg.Mono()
	for slot, a := range p.responders {
		switch {
		case a == nil:
			if free < 0 {
				free = slot
			}
		case a.busy:
		case a.host == host && a.offer.Port.Device == o.Port.Device && a.offer.Port.Epoch == o.Port.Epoch:
			return slot
		case a.isReclaimable(now) && (left < 0 || a.quietSince() < p.responders[left].quietSince()):
			left = slot
		}
	}
	if free < 0 {
		return left
	}
	return free
}

// connectResponder creates this host's end of a pair and connects it to the peer's end. It returns the answer to the offer.
func (k *Keeper) connectResponder(ctx context.Context, p *port, slot int, host string, o *exchange.Offer) (exchange.Answer, error) {
	k.mu.Lock()
	a := exchange.Answer{Port: k.portForPeers(p), PSN: uint32(k.cfg.Random()) & psnMask}
	k.mu.Unlock()
	peer, why := addressPeer(&a.Port.FabricPort, &o.Port.FabricPort, true, len(o.Devices) == 0)
	if why != verdict.ReasonNone {
		return a, reasonError(why)
	}
	peer.Host, peer.Device, peer.Port, peer.Role = host, o.Port.Device, o.Port.Port, verbs.FabricAnswers
	peer.Session, peer.RC, peer.PSN, peer.OwnPSN = o.Session, o.RC, o.PSN, a.PSN
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	orders := k.cfg.Orders(p.device)
	order := verbs.FabricOrder{Port: p.number, Epoch: a.Port.Epoch, Pair: MaxPeers + slot, Offer: true, Role: verbs.FabricAnswers}
	rc, err := orders.Order(ctx, order)
	if err != nil {
		return a, err
	}
	a.RC = rc
	order.Offer, order.Peer = false, peer
	_, err = orders.Order(ctx, order)
	return a, err
}

// Reconcile implements exchange.Handler. It does not keep a session that was connected by position if a device with the matching name exists now.
func (k *Keeper) Reconcile(host string, h *exchange.Held) (kept []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.responders {
			switch {
			case a == nil || a.host != host:
			case h == nil || slices.Contains(h.Sessions, a.session):
				if !a.busy && !a.ended && (h == nil || k.matchPort(host, a.offer) == p) {
					a.conversations++
					a.orphanSince = 0
					kept = append(kept, a.session)
				}
			case slices.Contains(h.Epochs, a.offer.Port.Epoch):
				a.ended = true
				k.wake.Send()
			}
		}
	}
	return kept
}

// Leave implements exchange.Handler. Run ends the responder; one that is being connected ends afterwards.
func (k *Keeper) Leave(host string, session uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.responders {
			if a != nil && a.host == host && a.session == session {
				a.ended = true
				k.wake.Send()
			}
		}
	}
}

// HandleConversationEnd implements exchange.Handler. The responders continue, since only the management network may have failed.
func (k *Keeper) HandleConversationEnd(host string, sessions []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.responders {
			if a == nil || a.host != host || !slices.Contains(sessions, a.session) || a.conversations == 0 {
				continue
			}
			if a.conversations--; a.conversations == 0 {
				a.orphanSince = k.cfg.Mono()
			}
		}
	}
}

// endOrphans ends responders that are no longer used: their hosts have ended the session, have been missing from the list for
// unlistedTimeout, or have had no conversation and sent no probe for orphanTimeout. A host that is back in the list after some seconds
// keeps its sessions, since it may not have noticed its absence. A slot stays occupied until the worker has ended its pair, or has not
// answered in time.
func (k *Keeper) endOrphans(ctx context.Context) {
	var all []leaveOrder
	k.mu.Lock()
	now := k.cfg.Mono()
	for _, p := range k.ports {
		for slot, a := range p.responders {
			if a == nil || a.busy || !k.isOrphan(a, now) {
				continue
			}
			a.busy, a.ended = true, true
			all = append(all, leaveOrder{
				device: p.device, order: verbs.FabricOrder{Port: p.number, Epoch: p.info.Epoch, Pair: MaxPeers + slot},
				done: func() { p.freeSlot(slot, a) },
			})
		}
	}
	k.mu.Unlock()
	k.leavePairs(ctx, all)
}

// isOrphan reports whether a responder is no longer used, and records since when the list lacks its host. The caller holds k.mu.
func (k *Keeper) isOrphan(a *responder, now int64) bool {
	switch _, listed := k.ownList.Host(a.host); {
	case listed:
		a.unlistedSince = 0
	case a.unlistedSince == 0:
		a.unlistedSince = now
	}
	return a.ended || a.unlistedSince != 0 && now-a.unlistedSince >= int64(unlistedTimeout) ||
		a.orphanSince != 0 && now-a.quietSince() > int64(orphanTimeout)
}

// freeSlot frees the slot of a responder that has ended, unless the port has a new Fabric.
func (p *port) freeSlot(slot int, a *responder) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if p.responders[slot] == a {
		p.responders[slot] = nil
		p.k.signalFreedSlots()
	}
}

// signalFreedSlots wakes the offers that wait for the slot of a responder. The caller holds k.mu.
func (k *Keeper) signalFreedSlots() {
	close(k.slotFreed)
	k.slotFreed = make(chan struct{})
}

// States implements exchange.Handler.
func (k *Keeper) States(host string, sessions []uint64) (ports []exchange.PortState, lacking []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answered := map[uint64]bool{}
	for _, p := range k.ports {
		if p.known {
			ports = append(ports, exchange.PortState{Device: p.device, Port: p.number, Epoch: p.info.Epoch, State: p.state})
		}
		for _, a := range p.responders {
			if a != nil && a.host == host && !a.busy && !a.ended {
				answered[a.session] = true
			}
		}
	}
	for _, s := range sessions {
		if !answered[s] {
			lacking = append(lacking, s)
		}
	}
	return ports, lacking
}

var _ exchange.Handler = (*Keeper)(nil)
