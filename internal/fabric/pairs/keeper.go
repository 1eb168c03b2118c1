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

// Keeper keeps the pairs of a host's ports. Its methods may be called concurrently; only Run, Meet and Leave block. Those about a
// device are called in the order in which it happened there.
type Keeper struct {
	cfg    Config
	meets  *rate.Limiter // on the clock of Config.Mono
	wake   wake.Signal   // holds a token when the pairs may not be those that ought to be
	begins int64         // where in the interval the first place of each port is, ns: random, so that hosts do not all probe at once

	mu      sync.Mutex
	list    listed
	ports   []*port // by device and number
	hosts   map[string]*host
	groups  map[groupKey]*group
	offset  int64 // wall clock minus CLOCK_MONOTONIC, of what was handled last
	scratch aggregate.Scratch
}

// groupKey is what rdma_fabric is about.
type groupKey struct {
	group string
	scope pinglist.Scope
}

// group sums up the pairs with a group.
type group struct {
	gone verdict.Counts // of pairs that are no more
	latencies
}

// New returns a Keeper for a list. It does nothing before Run.
func New(c Config, l *pinglist.List) *Keeper {
	k := &Keeper{cfg: c, wake: wake.New(), hosts: map[string]*host{}, groups: map[groupKey]*group{}}
	k.meets = rate.NewLimiter(meetsPerSecond, meetsPerSecond)
	k.begins = int64(c.Random() % uint64(max(c.Interval, 1)))
	k.list = c.findIn(l)
	return k
}

// SetList takes another list. Pairs that are in both go on.
func (k *Keeper) SetList(l *pinglist.List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = k.cfg.findIn(l)
	k.wake.Send()
}

// Run talks with the other hosts until ctx ends, and then waits until all conversations have ended.
func (k *Keeper) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		for _, start := range k.arrange(ctx) {
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

// arrange makes the pairs that ought to be and ends the others. It returns what has to run for hosts that are new.
func (k *Keeper) arrange(ctx context.Context) (start []func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.hosts {
		i := slices.IndexFunc(k.list.pings, func(p pinglist.Peer) bool { return p.Name == h.Name })
		if i < 0 || k.list.pings[i] != h.Peer {
			h.end()
			delete(k.hosts, h.Name)
		}
	}
	for _, p := range k.list.pings {
		h := k.hosts[p.Name]
		if h == nil {
			h = k.newHost(ctx, p)
			k.hosts[p.Name] = h
			start = append(start, h.run)
		}
		for _, port := range k.ports {
			h.pairWith(port)
		}
	}
	return start
}

// port returns a port, and makes it if it is new.
func (k *Keeper) port(device string, number int) *port {
	i, ok := slices.BinarySearchFunc(k.ports, portKey{device, number}, func(p *port, key portKey) int { return p.compare(key) })
	if !ok {
		p := &port{k: k, device: device, number: number, latencies: newLatencies(k.cfg.Window)}
		p.verdict.since = k.cfg.Mono()
		k.ports = slices.Insert(k.ports, i, p)
	}
	return k.ports[i]
}

// find returns a port that is known, nil for another one.
func (k *Keeper) find(device string, number int) *port {
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

// Port handles how peers reach a port now. offset is the wall clock minus CLOCK_MONOTONIC, in ns.
func (k *Keeper) Port(device string, info *verbs.FabricPort, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	p := k.port(device, info.Port)
	p.renew(info)
	k.wake.Send()
}

// PortState handles the state of a port. offset is that of Port.
func (k *Keeper) PortState(device string, number int, s verbs.PortState, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	if s == verbs.PortAbsent {
		s = verbs.PortNop // a device that is gone or released has no bad link
	}
	if p := k.find(device, number); p != nil && p.state != s {
		p.state = s
		p.judge(k.cfg.Mono())
	} else if p == nil {
		k.port(device, number).state = s
	}
}

// PortRole notes the role of a port, verbs.RoleManagement or "".
func (k *Keeper) PortRole(device string, number int, role string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.find(device, number); p != nil {
		p.role = role
	}
}

// Facts handles what the Fabric of a port saw. It does not keep f. offset is that of Port.
func (k *Keeper) Facts(device string, f *verbs.FabricFacts, offset int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offset = offset
	if p := k.find(device, f.Port); p != nil && p.info.Epoch == f.Epoch && f.Epoch != 0 {
		p.facts(f)
	}
}

// Ledger handles what the running worker of a device has counted. over says that it was the last time: the worker has ended.
func (k *Keeper) Ledger(device string, fabrics []ledger.Fabric, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range fabrics {
		if p := k.find(device, fabrics[i].Port); p != nil {
			p.counted(&fabrics[i], over)
		}
	}
	if !over {
		return
	}
	for _, p := range k.ports {
		if p.device == device && p.info.Epoch != 0 {
			p.renew(&verbs.FabricPort{Port: p.number, Reason: "its worker has ended"})
		}
	}
}

// Gone handles a device that is gone. What its pairs have counted is kept.
func (k *Keeper) Gone(device string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		if p.device == device && p.known {
			p.renew(&verbs.FabricPort{Port: p.number, Reason: "the device is gone"})
			p.known, p.state = false, verbs.PortNop
			k.wake.Send()
		}
	}
}

// positions returns the devices that probe, by name. That of a device is its position.
func (k *Keeper) positions() []string {
	var all []string
	for _, p := range k.ports {
		if p.known && !p.info.Unable && !slices.Contains(all, p.device) {
			all = append(all, p.device)
		}
	}
	return all
}

// remakeByName marks for another meeting the pairs of other devices that were made by position with a peer's device of this name:
// this host now has a device of that name too.
func (k *Keeper) remakeByName(device string) {
	if !slices.Contains(k.positions(), device) {
		return
	}
	for _, h := range k.hosts {
		for _, pr := range h.pairs {
			switch {
			case pr.port.device == device:
			case pr.meeting:
				pr.again = true
			case pr.reason == verdict.ReasonNone && pr.remote.Device == device:
				pr.makeStale()
			}
		}
	}
}

// describe returns a port as other hosts have to know it.
func (k *Keeper) describe(p *port) exchange.Port {
	return exchange.Port{Device: p.device, Position: slices.Index(k.positions(), p.device), FabricPort: p.info}
}

func (p *port) compare(key portKey) int {
	if c := strings.Compare(p.device, key.device); c != 0 {
		return c
	}
	return p.number - key.number
}

// groupOf returns the sums of the pairs with a group.
func (k *Keeper) groupOf(p *pinglist.Peer) *group {
	key := groupKey{p.Group, p.Scope}
	if k.groups[key] == nil {
		k.groups[key] = &group{latencies: newLatencies(k.cfg.Window)}
	}
	return k.groups[key]
}
