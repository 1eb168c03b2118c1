package pairs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/aggregate"
)

// Keeper manages the pairs of a host's ports. Its methods may be called concurrently. Only Run and AnswerOffer block. The caller must
// report the events of a device in the order in which they happened.
type Keeper struct {
	cfg             Config
	connectLimiter  *rate.Limiter // limits attempts to connect, on the clock of Config.Mono
	wake            wake.Signal   // holds a token when pairs may have to be added or removed
	firstSlotOffset int64         // random offset in the interval of the rounds of slot 0, ns, so that hosts do not all probe at once

	mu        sync.Mutex
	ownList   resolvedList
	ports     []*port // sorted by device and number
	hosts     map[string]*peerHost
	groups    map[groupKey]*group
	slotFreed chan struct{} // closed and replaced when slots of responders are free again
	offset    int64         // wall clock minus CLOCK_MONOTONIC, in ns, as of the last report
	scratch   aggregate.Scratch
}

// groupKey identifies a series of rdma_fabric.
type groupKey struct {
	group string
	scope pinglist.Scope
}

// group has the sums of the pairs with the hosts of a group.
type group struct {
	removedPairs verdict.Counts // of removed pairs
	latencies
}

// New returns a Keeper for a list. The Keeper connects no pair before Run.
func New(c Config, l *pinglist.List) *Keeper {
	k := &Keeper{cfg: c, wake: wake.New(), hosts: map[string]*peerHost{}, groups: map[groupKey]*group{}, slotFreed: make(chan struct{})}
	k.connectLimiter = rate.NewLimiter(connectsPerSecond, connectsPerSecond)
	k.firstSlotOffset = int64(c.Random() % uint64(max(c.Interval, 1)))
	k.ownList = c.resolveList(l)
	return k
}

// SetList replaces the list. Pairs of both lists continue.
func (k *Keeper) SetList(l *pinglist.List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ownList = k.cfg.resolveList(l)
	k.wake.Send()
}

// Run connects and maintains the pairs until ctx ends, and then waits until all conversations have ended.
func (k *Keeper) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		for _, start := range k.updatePairs(ctx) {
			running.Go(start)
		}
		running.Go(func() { k.endOrphans(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-tick.C:
		}
	}
}

// updatePairs adds missing pairs and ends pairs that the list does not have. It returns a function to run in a goroutine for each new host.
func (k *Keeper) updatePairs(ctx context.Context) (start []func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.hosts {
		i := slices.IndexFunc(k.ownList.pings, func(p pinglist.Peer) bool { return p.Name == h.Name })
		if i < 0 || k.ownList.pings[i] != h.Peer {
			h.cancel()
			delete(k.hosts, h.Name)
		}
	}
	for _, p := range k.ownList.pings {
		h := k.hosts[p.Name]
		if h == nil {
			h = k.newPeerHost(ctx, p)
			k.hosts[p.Name] = h
			start = append(start, h.runConversations)
		}
		for _, port := range k.ports {
			h.updatePairWith(port)
		}
	}
	return start
}

// ensurePort returns a port, and adds it if it is unknown.
func (k *Keeper) ensurePort(device string, number int) *port {
	i, ok := slices.BinarySearchFunc(k.ports, portKey{device, number}, func(p *port, key portKey) int { return p.compare(key) })
	if !ok {
		p := &port{k: k, device: device, number: number, latencies: newLatencies(k.cfg.Window)}
		p.verdict.since = k.cfg.Mono()
		k.ports = slices.Insert(k.ports, i, p)
	}
	return k.ports[i]
}

// findPort returns a port, or nil if it is unknown.
func (k *Keeper) findPort(device string, number int) *port {
	i, ok := slices.BinarySearchFunc(k.ports, portKey{device, number}, func(p *port, key portKey) int { return p.compare(key) })
	if !ok {
		return nil
	}
	return k.ports[i]
}

type portKey struct {
	device string
	number int
}

// HandlePort records how peers reach a port from now on. offset is the wall clock minus CLOCK_MONOTONIC, in ns.
func (k *Keeper) HandlePort(device string, info *verbs.FabricPort, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	p := k.ensurePort(device, info.Port)
	p.update(info)
	k.wake.Send()
}

// HandlePortState records the state of a port. For offset see HandlePort.
func (k *Keeper) HandlePortState(device string, number int, s verbs.PortState, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	if s == verbs.PortAbsent {
		s = verbs.PortNop // a device that was removed or released does not have a bad link
	}
	if p := k.findPort(device, number); p != nil && p.state != s {
		p.state = s
		p.updateVerdict(k.cfg.Mono())
	} else if p == nil {
		k.ensurePort(device, number).state = s
	}
}

// SetPortRole records the role of a port, verbs.RoleManagement or "".
func (k *Keeper) SetPortRole(device string, number int, role string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.findPort(device, number); p != nil {
		p.role = role
	}
}

// HandleFacts evaluates facts that the Fabric of a port reports. It does not keep f. For offset see HandlePort.
func (k *Keeper) HandleFacts(device string, f *verbs.FabricFacts, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	if p := k.findPort(device, f.Port); p != nil && p.info.Epoch == f.Epoch && f.Epoch != 0 {
		p.addFacts(f)
	}
}

// HandleLedger records the counts of a device's worker. over is true if the worker has ended and these counts are its last.
func (k *Keeper) HandleLedger(device string, fabrics []ledger.FabricState, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range fabrics {
		if p := k.findPort(device, fabrics[i].Port); p != nil {
			p.updateCounts(&fabrics[i], over)
		}
	}
	if !over {
		return
	}
	for _, p := range k.ports {
		if p.device == device && p.info.Epoch != 0 {
			p.update(&verbs.FabricPort{Port: p.number, Reason: "its worker has ended"})
		}
	}
}

// HandleDeviceGone ends the pairs of a device that was removed. It keeps their counts.
func (k *Keeper) HandleDeviceGone(device string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		if p.device == device && p.known {
			p.update(&verbs.FabricPort{Port: p.number, Reason: "the device is gone"})
			p.known, p.state = false, verbs.PortNop
			k.wake.Send()
		}
	}
}

// probingDevices returns the names of the devices that can probe, in order. The index of a device is its position.
func (k *Keeper) probingDevices() []string {
	var all []string
	for _, p := range k.ports {
		if p.known && !p.info.Unable && !slices.Contains(all, p.device) {
			all = append(all, p.device)
		}
	}
	return all
}

// reconnectByName reconnects pairs that were connected by position although their peer's device has the name of device. Call it when this host
// gets a device of that name.
func (k *Keeper) reconnectByName(device string) {
	if !slices.Contains(k.probingDevices(), device) {
		return
	}
	for _, h := range k.hosts {
		for _, pr := range h.pairs {
			switch {
			case pr.port.device == device:
			case pr.connecting:
				pr.changedMeanwhile = true
			case pr.reason == verdict.ReasonNone && pr.remote.Device == device:
				pr.markStale()
			}
		}
	}
}

// portForPeers returns the description of a port that other hosts need.
func (k *Keeper) portForPeers(p *port) exchange.Port {
	return exchange.Port{Device: p.device, Position: slices.Index(k.probingDevices(), p.device), FabricPort: p.info}
}

func (p *port) compare(key portKey) int {
	if c := strings.Compare(p.device, key.device); c != 0 {
		return c
	}
	return p.number - key.number
}

// sumsOfGroup returns the sums of the pairs with the hosts of p's group, and adds them if they are missing.
func (k *Keeper) sumsOfGroup(p *pinglist.Peer) *group {
	key := groupKey{p.Group, p.Scope}
	if k.groups[key] == nil {
		k.groups[key] = &group{latencies: newLatencies(k.cfg.Window)}
	}
	return k.groups[key]
}
