package soak

import (
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// truth is what really was wrong in the world, and until when. world.mu guards it.
type truth struct {
	down      map[string]bool // hosts without a process
	up        map[string]time.Time
	lost      map[[2]string]bool // hosts and devices without a worker
	opened    map[[2]string]time.Time
	lists     map[string]*pinglist.List // by host
	listed    map[[2]string]time.Time   // when a host's list got another host last
	mended    map[link]time.Time        // when a link was whole again
	cutOff    map[string]bool           // hosts of which all links are severed
	connected map[string]time.Time
}

func newTruth() truth {
	return truth{
		down: map[string]bool{}, up: map[string]time.Time{}, lost: map[[2]string]bool{}, opened: map[[2]string]time.Time{},
		lists: map[string]*pinglist.List{}, listed: map[[2]string]time.Time{}, mended: map[link]time.Time{}, cutOff: map[string]bool{},
		connected: map[string]time.Time{},
	}
}

func (w *world) setUp(host string, up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[host], w.up[host] = !up, time.Now()
	for _, device := range w.host(host).devices {
		w.lost[[2]string{host, device}] = true
	}
}

func (w *world) setOpen(host, device string, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{host, device}
	w.lost[key], w.opened[key] = !open, time.Now()
}

func (w *world) setList(host string, l *pinglist.List) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.hosts {
		before := false
		if w.lists[host] != nil {
			_, before = w.lists[host].Host(other.name)
		}
		if _, now := l.Host(other.name); now && !before {
			w.listed[[2]string{host, other.name}] = time.Now()
		}
	}
	w.lists[host] = l
}

// sever loses the RDMA packets of some links, or ends that.
func (w *world) sever(links []link, severed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range links {
		if severed {
			w.severed[l]++
		} else {
			w.severed[l]--
			w.mended[l] = time.Now()
		}
	}
}

// A verdict may come so long after its cause is over, and may hold for so long after it.
const (
	comesAfter    = 10 * time.Second
	lossFor       = 75 * time.Second  // the window in which losses count
	holdsFor      = 90 * time.Second  // the longest pause between two conversations, and the meeting
	lossHoldsFor  = 150 * time.Second // two windows of losses
	sampledEvery  = 10 * time.Second
	settledAfter  = 6 * time.Minute
	watchedAfter  = 25 * time.Minute // faults that come late: a pair was ended ten minutes after its conversation
	startsWithout = 2 * time.Minute
)

// hear judges a point that a host has emitted.
func (w *world) hear(h *host, point measure.Point) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch p := point.(type) {
	case *measure.FabricPeer:
		if p.Verdict != "ok" || p.Reason != "" {
			w.noteLocked("%s/%s says of %s/%s: %s%s", h.name, p.Device, p.PeerHost, p.PeerDevice, p.Verdict, p.Reason)
		}
		w.judge(h, p, true)
	case *measure.FabricPort:
		if p.Verdict == verdict.VerdictOwnLink {
			w.noteLocked("%s/%s says of its own port: %s", h.name, p.Device, p.Verdict)
		}
		w.judgePort(h, p.Device, p.Verdict)
	}
}

// judgePort notes a port that blames its own link although that is whole.
func (w *world) judgePort(h *host, device string, v verdict.Verdict) {
	if v == verdict.VerdictOwnLink && !w.cutOff[h.name] && time.Since(w.connected[h.name]) > lossHoldsFor {
		w.faultLocked("%s/%s blames its own link, which is whole", h.name, device)
	}
}

// judge notes a verdict that blames what was well. now: it is new.
func (w *world) judge(h *host, p *measure.FabricPeer, now bool) {
	v := p.Verdict
	switch {
	case v == verdict.VerdictPeerDown:
		if w.mayBeDown(h, p, now) {
			return
		}
	case v == verdict.VerdictPeerPort, v == verdict.VerdictPeerBusy:
	case v.IsNetwork(), v == verdict.VerdictOwnLink:
		l, holds := linkOf(h.name, p.PeerHost), lossHoldsFor
		if now {
			holds = lossFor
		}
		if w.severed[l] > 0 || happenedWithin(w.mended[l], holds) {
			return
		}
	default:
		return
	}
	w.faultLocked("%s/%s blames %s/%s, which is well: %s", h.name, p.Device, p.PeerHost, p.PeerDevice, p.Verdict)
}

func happenedWithin(moment time.Time, d time.Duration) bool {
	return !moment.IsZero() && time.Since(moment) < d
}

// mayBeDown reports whether a host is right to find another one down: no process of it runs, or no worker of the device; or TCP does
// not reach it and it has ended its pairs, since its list lacks the host. Such a verdict holds until the hosts have talked.
func (w *world) mayBeDown(h *host, p *measure.FabricPeer, now bool) bool {
	grace := holdsFor
	if now {
		grace = comesAfter
	}
	device, listed := [2]string{p.PeerHost, p.PeerDevice}, [2]string{p.PeerHost, h.name}
	if w.down[p.PeerHost] || happenedWithin(w.up[p.PeerHost], grace) || w.lost[device] || happenedWithin(w.opened[device], grace) {
		return true
	}
	_, has := w.lists[p.PeerHost].Host(h.name)
	unreachable := w.tcp.unreachableSince(h.name, p.PeerHost, time.Now().Add(-grace))
	return unreachable && (!now || !has || happenedWithin(w.listed[listed], grace))
}

// sample judges what all hosts show now.
func (w *world) sample() {
	for _, h := range w.hosts {
		p, ok := h.running().(*modern)
		if !ok || p.unheard.Load() {
			continue
		}
		views := p.k.Views()
		w.mu.Lock()
		for i := range views {
			w.judge(h, &views[i].FabricPeer, false)
			w.judgePort(h, views[i].Device, views[i].OwnVerdict)
		}
		w.mu.Unlock()
	}
}

// probing returns the side of a worker that probes in a session, any if session is 0; nil if there is none. world.mu is held.
func (w *world) probing(host, device string, session uint64) *side {
	for x := range w.devices {
		if x.host.name != host || x.device != device || x.ended {
			continue
		}
		for _, s := range x.pairs {
			if s != nil && s.role == verbs.FabricProbes && s.peer.Session == session {
				return s
			}
		}
	}
	return nil
}

// checkSettled notes each pair that is not well.
func (w *world) checkSettled(when string) {
	for _, h := range w.hosts {
		switch p := h.running().(type) {
		case *former:
			for _, pair := range p.silenced() {
				w.fault("%s: %s", when, pair)
			}
		case *modern:
			w.checkPairs(when, h, p)
		}
	}
}

// checkPairs notes the pairs of a host that are not well, or are with another device than they should be.
func (w *world) checkPairs(when string, h *host, p *modern) {
	found := map[string]string{}
	for _, v := range p.k.Views() {
		text := string(v.Verdict) + string(v.Reason)
		if v.Reason == "" {
			text = v.PeerDevice + " " + text
		}
		if v.Verdict == "ok" && v.Reason == "" && !w.isProbed(h.name, v.Device, v.PeerHost) {
			text += ", but nothing is answered"
		}
		found[v.Device+" "+v.PeerHost] = text
	}
	want := map[string]string{}
	for _, device := range h.devices {
		for _, peer := range h.ownList().Pings(h.name, peers) {
			state := string(verdict.ReasonUnsupported)
			if other := w.host(peer.Name).counterpart(h, device); other != "" {
				state = other + " ok"
			}
			want[device+" "+peer.Name] = state
		}
	}
	for pair, state := range want {
		if found[pair] != state {
			w.fault("%s: %s probes %s: want %q, found %q", when, h.name, pair, state, found[pair])
		}
	}
	if len(found) != len(want) {
		w.fault("%s: %s has %d pairs, want %d", when, h.name, len(found), len(want))
	}
}

func (h *host) has(device string) bool { return slices.Contains(h.devices, device) }

// counterpart returns the device of the host that belongs to a device of another one, "" if there is none.
func (h *host) counterpart(other *host, device string) string {
	at := slices.Index(other.devices, device)
	switch {
	case h.has(device):
		return device
	case slices.ContainsFunc(other.devices, h.has) || at >= len(h.devices) || h.former:
		return ""
	}
	return h.devices[at]
}

// isProbed reports whether a device's probes and writes to a peer are answered, once in a pair.
func (w *world) isProbed(host, device, peer string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for x := range w.devices {
		if x.host.name != host || x.device != device || x.ended {
			continue
		}
		for _, s := range x.pairs {
			if s != nil && s.role == verbs.FabricProbes && s.peer.Host == peer && happenedWithin(s.echoed, 2*time.Second) && happenedWithin(s.wrote, 2*time.Second) {
				n++
			}
		}
	}
	return n == 1
}

// now returns what a host says of the pairs with another one: a verdict or a reason.
func (h *host) now(peer string) (all []string) {
	p, ok := h.running().(*modern)
	if !ok {
		return nil
	}
	for _, v := range p.k.Views() {
		if v.PeerHost == peer {
			all = append(all, string(v.Verdict)+string(v.Reason))
		}
	}
	return all
}

// say notes a pair of which a host does not say what it should.
func (w *world) say(h *host, peer string, want ...string) {
	for _, found := range h.now(peer) {
		if !slices.Contains(want, found) {
			w.fault("%s says of %s %q, want %q", h.name, peer, found, fmt.Sprint(want))
		}
	}
}
