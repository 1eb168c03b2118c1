package pairs

import (
	"context"
	"errors"
	"slices"
	"sync"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/verdict"
)

// answer is the end of a pair that another host probes. Keeper.mu guards it. Moments are CLOCK_MONOTONIC ns, 0 is never.
type answer struct {
	host    string
	offer   *exchange.Offer
	session uint64
	busy    bool   // it is being connected, or ended
	over    bool   // its host does not go on with it
	talks   int    // open conversations in which it was met or kept
	orphan  int64  // when the last of these conversations ended; 0: one is open
	echoed  uint64 // echoes, as the worker has counted them
	heard   int64  // when echoed was seen to grow last
	strange int64  // since when the list lacks its host; 0: the list has it
}

// quietSince returns since when neither a conversation nor a probe has shown that the host goes on with an orphan.
func (a *answer) quietSince() int64 { return max(a.orphan, a.heard) }

// isLeftOver reports whether the place of an answer may be given to another pair.
func (a *answer) isLeftOver(now int64) bool {
	return a.over || a.orphan != 0 && now-a.quietSince() > int64(leftOverAfter)
}

// Listed implements exchange.Handler.
func (k *Keeper) Listed(host string) (digest string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok = k.list.Host(host)
	return k.list.Digest(), ok
}

// Meet implements exchange.Handler.
func (k *Keeper) Meet(ctx context.Context, host string, o exchange.Offer) exchange.Answer {
	p, slot, why := k.place(host, &o)
	if why != verdict.ReasonNone {
		return exchange.Answer{Reason: why}
	}
	a, err := k.connect(ctx, p, slot, host, &o)
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := p.answers[slot] // another one if the port's Fabric is new
	if err == nil && p.info.Epoch == a.Port.Epoch && mine != nil && mine.session == o.Session {
		mine.busy = false
		if mine.over {
			k.wake.Send()
		}
		return a
	}
	if mine != nil && mine.session == o.Session {
		p.answers[slot] = nil
	}
	var reason reasonError
	switch {
	case errors.As(err, &reason):
		return exchange.Answer{Reason: verdict.Reason(reason)}
	case err == nil || errors.Is(err, verbs.ErrNoFabric):
		return exchange.Answer{Reason: verdict.ReasonNotActive}
	}
	k.cfg.Log.Debug("a pair cannot be connected", "device", p.device, "port", p.number, "peer", host, "error", err)
	return exchange.Answer{Reason: verdict.ReasonFailed}
}

// place finds the port for an offer and a place for the pair.
func (k *Keeper) place(host string, o *exchange.Offer) (*port, int, verdict.Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.fitting(host, o)
	switch {
	case p == nil || p.info.Unable:
		return nil, 0, verdict.ReasonUnsupported
	case p.info.Epoch == 0:
		return nil, 0, verdict.ReasonNotActive
	}
	slot := p.freeFor(host, o)
	if slot < 0 {
		return nil, 0, verdict.ReasonFull
	}
	p.answers[slot] = &answer{host: host, offer: o, session: o.Session, busy: true, talks: 1}
	return p, slot, verdict.ReasonNone
}

// fitting returns the port that an offered one is to meet: the port of the device of the same name. If the two hosts have no name
// of a device in common, it is that of the device in the same position.
func (k *Keeper) fitting(host string, o *exchange.Offer) *port {
	devices := k.positions()
	isOwn := func(device string) bool { return slices.Contains(devices, device) }
	switch {
	case isOwn(o.Port.Device):
		return k.find(o.Port.Device, o.Port.Port)
	case slices.ContainsFunc(o.Devices, isOwn), slices.ContainsFunc(k.devicesOf(host), isOwn):
		return nil
	case o.Port.Position < 0 || o.Port.Position >= len(devices):
		return nil
	}
	return k.find(devices[o.Port.Position], o.Port.Port)
}

// devicesOf returns the devices of a host that this one answers. A host of an older release does not offer the names of all.
func (k *Keeper) devicesOf(host string) (all []string) {
	for _, p := range k.ports {
		for _, a := range p.answers {
			if a != nil && a.host == host {
				all = append(all, a.offer.Port.Device)
			}
		}
	}
	return all
}

// freeFor returns the place for a pair with a peer: that of the same Fabric of the peer, which the new pair replaces, a free one,
// or the one that has been left over for longest. It returns -1 if there is none.
func (p *port) freeFor(host string, o *exchange.Offer) int {
	free, left := -1, -1
	now := p.k.cfg.Mono()
	for slot, a := range p.answers {
		switch {
		case a == nil:
			if free < 0 {
				free = slot
			}
		case a.busy:
		case a.host == host && a.offer.Port.Device == o.Port.Device && a.offer.Port.Epoch == o.Port.Epoch:
			return slot
		case a.isLeftOver(now) && (left < 0 || a.quietSince() < p.answers[left].quietSince()):
			left = slot
		}
	}
	if free < 0 {
		return left
	}
	return free
}

// connect makes the own end of a pair, connects it with the peer's, and returns what the peer has to know.
func (k *Keeper) connect(ctx context.Context, p *port, slot int, host string, o *exchange.Offer) (exchange.Answer, error) {
	k.mu.Lock()
	a := exchange.Answer{Port: k.describe(p), PSN: uint32(k.cfg.Random()) & psnMask}
	k.mu.Unlock()
	peer, why := reach(&a.Port.FabricPort, &o.Port.FabricPort, true, len(o.Devices) == 0)
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

// Reconcile implements exchange.Handler. A pair that was made by position is not kept when the names of devices say otherwise.
func (k *Keeper) Reconcile(host string, h *exchange.Held) (kept []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.answers {
			switch {
			case a == nil || a.host != host:
			case h == nil || slices.Contains(h.Sessions, a.session):
				if !a.busy && !a.over && (h == nil || k.fitting(host, a.offer) == p) {
					a.talks++
					a.orphan = 0
					kept = append(kept, a.session)
				}
			case slices.Contains(h.Epochs, a.offer.Port.Epoch):
				a.over = true
				k.wake.Send()
			}
		}
	}
	return kept
}

// Leave implements exchange.Handler. A pair that is being met ends after that.
func (k *Keeper) Leave(host string, session uint64) {
	isLeft := func(a *answer) bool { return a.host == host && a.session == session }
	k.mu.Lock()
	for _, p := range k.ports {
		for _, a := range p.answers {
			if a != nil && isLeft(a) {
				a.over = true
			}
		}
	}
	k.mu.Unlock()
	k.end(context.Background(), isLeft)
}

// Ended implements exchange.Handler. The management network may be gone, and probes go on.
func (k *Keeper) Ended(host string, sessions []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.answers {
			if a == nil || a.host != host || !slices.Contains(sessions, a.session) || a.talks == 0 {
				continue
			}
			if a.talks--; a.talks == 0 {
				a.orphan = k.cfg.Mono()
			}
		}
	}
}

// endOrphans ends the pairs with which their hosts do not go on: they say so, have been missing in the list for some time, or have
// neither talked nor sent a probe for long. A host that is back in the list after some seconds, and may not even have noticed, goes
// on with what it has.
func (k *Keeper) endOrphans(ctx context.Context) {
	now := k.cfg.Mono()
	k.end(ctx, func(a *answer) bool {
		switch _, listed := k.list.Host(a.host); {
		case listed:
			a.strange = 0
		case a.strange == 0:
			a.strange = now
		}
		return a.over || a.strange != 0 && now-a.strange >= int64(strangeFor) ||
			a.orphan != 0 && now-a.quietSince() > int64(orphanFor)
	})
}

// end ends the answering pairs of which is true, those of each device on their own. Their places are taken until the worker has
// ended them.
func (k *Keeper) end(ctx context.Context, which func(*answer) bool) {
	type ending struct {
		leaving
		place  **answer
		answer *answer
	}
	byDevice := map[string][]ending{}
	k.mu.Lock()
	for _, p := range k.ports {
		for slot, a := range p.answers {
			if a == nil || a.busy || !which(a) {
				continue
			}
			a.busy = true
			order := verbs.FabricOrder{Port: p.number, Epoch: p.info.Epoch, Pair: MaxPeers + slot}
			byDevice[p.device] = append(byDevice[p.device], ending{leaving{p.device, order}, &p.answers[slot], a})
		}
	}
	k.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	for _, all := range byDevice {
		running.Go(func() {
			for _, e := range all {
				k.leave(ctx, e.leaving)
				k.mu.Lock()
				if *e.place == e.answer {
					*e.place = nil
				}
				k.mu.Unlock()
			}
		})
	}
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
		for _, a := range p.answers {
			if a != nil && a.host == host && !a.busy && !a.over {
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
