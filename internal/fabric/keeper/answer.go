package keeper

import (
	"context"
	"errors"
	"slices"

	"rdma_events/internal/fabric"
	"rdma_events/internal/hello"
	"rdma_events/internal/verbs"
)

// answer is the end of a pair that another host probes. Keeper.mu guards it.
type answer struct {
	host    string
	device  string // of the peer
	epoch   uint64 // of the peer's port
	session uint64
	busy    bool  // it is being connected
	orphan  int64 // since when its host has hung up, CLOCK_MONOTONIC ns; 0: it has not
}

// Listed implements hello.Handler.
func (k *Keeper) Listed(host string) (digest string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok = k.list.Host(host)
	return k.list.Digest(), ok
}

// Meet implements hello.Handler.
func (k *Keeper) Meet(ctx context.Context, host string, o hello.Offer) hello.Answer {
	p, slot, why := k.place(host, &o)
	if why != fabric.ReasonNone {
		return hello.Answer{Reason: why}
	}
	a, err := k.connect(ctx, p, slot, host, &o)
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := p.answers[slot] // another one if the port's Fabric is new
	if err == nil && p.info.Epoch == a.Port.Epoch && mine != nil && mine.session == o.Session {
		mine.busy = false
		return a
	}
	if mine != nil && mine.session == o.Session {
		p.answers[slot] = nil
	}
	var reason reasonError
	switch {
	case errors.As(err, &reason):
		return hello.Answer{Reason: fabric.Reason(reason)}
	case err == nil || errors.Is(err, verbs.ErrNoFabric):
		return hello.Answer{Reason: fabric.ReasonNotActive}
	}
	k.cfg.Log.Debug("a pair cannot be connected", "device", p.device, "port", p.number, "peer", host, "error", err)
	return hello.Answer{Reason: fabric.ReasonFailed}
}

// place finds the port for an offer and a place for the pair.
func (k *Keeper) place(host string, o *hello.Offer) (*port, int, fabric.Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.fitting(o)
	switch {
	case p == nil || p.info.Unable:
		return nil, 0, fabric.ReasonUnsupported
	case p.info.Epoch == 0:
		return nil, 0, fabric.ReasonNotActive
	}
	slot := p.freeFor(host, o)
	if slot < 0 {
		return nil, 0, fabric.ReasonFull
	}
	p.answers[slot] = &answer{host: host, device: o.Port.Device, epoch: o.Port.Epoch, session: o.Session, busy: true}
	return p, slot, fabric.ReasonNone
}

// fitting returns the port that a peer's is to meet: that of the device of the same name, else of the same position.
func (k *Keeper) fitting(o *hello.Offer) *port {
	devices := k.positions()
	device := o.Port.Device
	if !slices.Contains(devices, device) {
		if o.Port.Position < 0 || o.Port.Position >= len(devices) {
			return nil
		}
		device = devices[o.Port.Position]
	}
	return k.find(device, o.Port.Port)
}

// freeFor returns the place for a pair with a peer: that of the same Fabric of the peer, which the new pair replaces, a free one,
// or one that is left over. It returns -1 if there is none.
func (p *port) freeFor(host string, o *hello.Offer) int {
	free, left := -1, -1
	for slot, a := range p.answers {
		switch {
		case a == nil:
			if free < 0 {
				free = slot
			}
		case a.busy:
		case a.host == host && a.device == o.Port.Device && a.epoch == o.Port.Epoch:
			return slot
		case a.orphan != 0 && (left < 0 || a.host == host || a.orphan < p.answers[left].orphan):
			left = slot
		}
	}
	if free < 0 {
		return left
	}
	return free
}

// connect makes the own end of a pair, connects it with the peer's, and returns what the peer has to know.
func (k *Keeper) connect(ctx context.Context, p *port, slot int, host string, o *hello.Offer) (hello.Answer, error) {
	k.mu.Lock()
	a := hello.Answer{Port: k.describe(p), PSN: uint32(k.cfg.Random()) & psnMask}
	k.mu.Unlock()
	peer, why := reach(&a.Port.FabricPort, &o.Port.FabricPort, true)
	if why != fabric.ReasonNone {
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

// Leave implements hello.Handler.
func (k *Keeper) Leave(host string, session uint64) {
	k.end(context.Background(), func(a *answer) bool { return a.host == host && a.session == session })
}

// Ended implements hello.Handler. The management network may be gone, and probes go on.
func (k *Keeper) Ended(host string, sessions []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for _, a := range p.answers {
			if a != nil && a.host == host && slices.Contains(sessions, a.session) {
				a.orphan = k.cfg.Mono()
			}
		}
	}
}

// endOrphans ends the pairs whose hosts have hung up long ago, or are not in the list any more.
func (k *Keeper) endOrphans(ctx context.Context) {
	now := k.cfg.Mono()
	k.end(ctx, func(a *answer) bool {
		_, listed := k.list.Host(a.host)
		return !listed || a.orphan != 0 && now-a.orphan > int64(orphanFor)
	})
}

// end ends the answering pairs of which is true. Their places are taken until the worker has ended them.
func (k *Keeper) end(ctx context.Context, which func(*answer) bool) {
	for _, l := range k.leftover(which) {
		k.leave(ctx, l.leaving)
		k.mu.Lock()
		if l.port.answers[l.slot] == l.answer {
			l.port.answers[l.slot] = nil
		}
		k.mu.Unlock()
	}
}

// ending is an answering pair that is to end.
type ending struct {
	leaving
	port   *port
	slot   int
	answer *answer
}

func (k *Keeper) leftover(which func(*answer) bool) (all []ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		for slot, a := range p.answers {
			if a == nil || a.busy || !which(a) {
				continue
			}
			a.busy = true
			order := verbs.FabricOrder{Port: p.number, Epoch: p.info.Epoch, Pair: MaxPeers + slot}
			all = append(all, ending{leaving{p.device, order}, p, slot, a})
		}
	}
	return all
}

// States implements hello.Handler.
func (k *Keeper) States() []hello.PortState {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []hello.PortState
	for _, p := range k.ports {
		if p.known {
			all = append(all, hello.PortState{Device: p.device, Port: p.number, Epoch: p.info.Epoch, State: p.state})
		}
	}
	return all
}

var _ hello.Handler = (*Keeper)(nil)
