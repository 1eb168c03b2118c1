package endpoint

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// These constants must be equal to those of package session.
const (
	queryDelay = 10 * time.Millisecond
	settle     = 100 * time.Millisecond
)

// fabricRig is a rig whose device creates Fabrics that the test controls.
type fabricRig struct {
	*sessiontest.Rig
	t        *testing.T
	orders   verbs.FabricOrders
	mu       sync.Mutex
	attempts []time.Time   // calls of NewFabricEndpoint
	made     []*fakeFabric // created Fabrics
	refuse   error         // returned by the next calls of NewFabricEndpoint
	table    []verbs.GID   // GID table of each port; nil: that of the simulator
	lid      int           // LID of each port; 0: that of the simulator
	closing  func() error  // its result replaces that of the device's Close; nil: not replaced
}

// newFabricRig returns a rig without completion-queue probes. The Fabrics of its ports have two paths.
func newFabricRig(t *testing.T, profile, scenario string) *fabricRig {
	f := &fabricRig{t: t}
	f.Rig = sessiontest.New(t, f.run, profile, scenario)
	f.Options.Probe.Interval = 0
	f.Options.Fabric = verbs.FabricOptions{Paths: 2, Interval: 500 * time.Millisecond, GIDIndex: -1, PKeyIndex: -1, TrafficClass: 106}
	f.Wrap = func(b verbs.Backend) verbs.Backend { return fabricBackend{b, f} }
	return f
}

func (f *fabricRig) run(ctx context.Context, b verbs.Backend, led *ledger.Ledger, o verbs.Options, send func(verbs.Batch) error) (status.End, error) {
	return session.Run(ctx, b, led, o, send, New(&f.orders))
}

// locked calls change with mu held.
func (f *fabricRig) locked(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// lastFabric returns the last Fabric that was created, and the number of created Fabrics.
func (f *fabricRig) lastFabric() (last *fakeFabric, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n = len(f.made); n > 0 {
		last = f.made[n-1]
	}
	return last, n
}

// attemptDelays returns, for each call of NewFabricEndpoint after a time, the delay since that time.
func (f *fabricRig) attemptDelays(since time.Time) (after []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.attempts {
		if !at.Before(since) {
			after = append(after, at.Sub(since))
		}
	}
	return after
}

// setGIDs changes the GID table of the ports and injects the event by which the kernel reports that.
func (f *fabricRig) setGIDs(table ...verbs.GID) {
	f.locked(func() { f.table = table })
	if err := f.World.Inject("sim0", verbs.EventGIDChange, 1, 1); err != nil {
		f.t.Error(err)
	}
}

type fabricBackend struct {
	verbs.Backend
	f *fabricRig
}

func (b fabricBackend) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	return &fabricDevice{d, b.f}, err
}

type fabricDevice struct {
	verbs.Device
	f *fabricRig
}

func (d *fabricDevice) QueryPort(port int) (verbs.PortAttr, error) {
	a, err := d.Device.QueryPort(port)
	d.f.locked(func() {
		if d.f.lid != 0 {
			a.LID = d.f.lid
		}
	})
	return a, err
}

func (d *fabricDevice) ReadGIDs(port int) (verbs.GIDTable, error) {
	t, err := d.Device.ReadGIDs(port)
	d.f.locked(func() {
		if d.f.table != nil {
			t.Entries = slices.Clone(d.f.table)
		}
	})
	return t, err
}

func (d *fabricDevice) NewFabricEndpoint(c verbs.FabricConfig) (verbs.FabricEndpoint, verbs.FabricPort, error) {
	a, err := d.QueryPort(c.Port)
	if err != nil {
		return nil, verbs.FabricPort{}, err
	}
	f := d.f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts = append(f.attempts, time.Now())
	if f.refuse != nil {
		return nil, verbs.FabricPort{}, f.refuse
	}
	one := &fakeFabric{t: f.t, config: c, results: make(chan []verbs.FabricFact), errs: make(chan error, 1),
		nudged: make(chan struct{}, 1), ended: make(chan struct{})}
	f.made = append(f.made, one)
	at := verbs.FabricPort{LinkLayer: a.LinkLayer, LID: a.LID, MTU: a.MTU, PKey: 0xffff, UD: []uint32{17, 18}, QKey: 7}
	for _, g := range f.table {
		if g.Type == verbs.GIDRoCEv2 && !g.IsLinkLocal() {
			at.GIDs = append(at.GIDs, verbs.FabricGID{Index: g.Index, Raw: g.Raw})
		}
	}
	return one, at, nil
}

func (d *fabricDevice) Close(timeout time.Duration) error {
	d.f.mu.Lock()
	closing, made := d.f.closing, slices.Clone(d.f.made)
	d.f.mu.Unlock()
	for _, one := range made {
		one.end()
	}
	if closing != nil {
		_ = d.Device.Close(timeout) // ends the goroutines of the simulator
		return closing()
	}
	return d.Device.Close(timeout)
}

// fakeFabric is a Fabric whose facts the test provides. It fails the test if calls overlap that must not.
type fakeFabric struct {
	t       *testing.T
	config  verbs.FabricConfig
	results chan []verbs.FabricFact // a Run receives facts and returns them
	errs    chan error              // a Run receives an error and returns it
	nudged  chan struct{}
	ended   chan struct{}
	once    sync.Once

	offer func(pair int, role verbs.FabricRole) (uint32, error) // nil: returns pair + 100
	join  func(pair int, peer *verbs.FabricPeer) error          // nil: does nothing
	leave func(pair int) error                                  // nil: does nothing
	close func() error                                          // nil: does nothing

	running, ordered, closed atomic.Bool
	closedAt                 time.Time

	mu       sync.Mutex
	runTimes []time.Duration // durations passed to Run
	threads  map[int]bool    // threads that called Run
}

func (f *fakeFabric) UD() (numbers []uint32, qkey uint32) { return []uint32{17, 18}, 7 }

func (f *fakeFabric) Run(facts []verbs.FabricFact, lasting time.Duration) (n int, upTo int64, err error) {
	if !f.running.CompareAndSwap(false, true) {
		f.t.Error("two Runs at a time")
	}
	defer f.running.Store(false)
	f.mu.Lock()
	f.runTimes = append(f.runTimes, lasting)
	if f.threads == nil {
		f.threads = map[int]bool{}
	}
	f.threads[unix.Gettid()] = true
	f.mu.Unlock()
	over := time.NewTimer(lasting)
	defer over.Stop()
	select {
	case <-f.ended:
		return 0, 0, verbs.ErrClosed
	case err = <-f.errs:
	case saw := <-f.results:
		n = copy(facts, saw)
	case <-f.nudged:
	case <-over.C:
	}
	return n, time.Now().UnixNano(), err
}

// takeRunTimes returns the durations passed to Run since the previous call.
func (f *fakeFabric) takeRunTimes() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.runTimes
	f.runTimes = nil
	return all
}

func (f *fakeFabric) checkOrder(do func() error) error {
	if !f.ordered.CompareAndSwap(false, true) {
		f.t.Error("two orders at a time")
	}
	defer f.ordered.Store(false)
	if f.closed.Load() {
		f.t.Error("an order to a Fabric that was closed")
	}
	return do()
}

func (f *fakeFabric) Offer(pair int, role verbs.FabricRole) (rc uint32, err error) {
	err = f.checkOrder(func() error {
		rc = uint32(pair + 100)
		if f.offer != nil {
			rc, err = f.offer(pair, role)
		}
		return err
	})
	return rc, err
}

func (f *fakeFabric) Join(pair int, peer *verbs.FabricPeer) error {
	return f.checkOrder(func() error {
		if f.join == nil {
			return nil
		}
		return f.join(pair, peer)
	})
}

func (f *fakeFabric) Leave(pair int) error {
	return f.checkOrder(func() error {
		if f.leave == nil {
			return nil
		}
		return f.leave(pair)
	})
}

func (f *fakeFabric) Nudge() {
	select {
	case f.nudged <- struct{}{}:
	default:
	}
}

func (f *fakeFabric) end() { f.once.Do(func() { close(f.ended) }) }

func (f *fakeFabric) Close(time.Duration) error {
	if f.ordered.Load() || f.running.Load() {
		f.t.Error("a Fabric is closed beside another call")
	}
	f.closedAt = time.Now()
	f.closed.Store(true)
	f.end()
	if f.close != nil {
		return f.close()
	}
	return nil
}

// fabricPorts returns the announced descriptions of ports.
func fabricPorts(items []verbs.Item) []verbs.FabricPort {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.FabricPort { return i.FabricPort })
}

func factsOf(items []verbs.Item) []verbs.FabricFacts {
	return sessiontest.Pick(items, func(i verbs.Item) *verbs.FabricFacts { return i.FabricFacts })
}

// sentFacts returns one fact about a sent probe for each number.
func sentFacts(seqs ...uint64) (facts []verbs.FabricFact) {
	for _, seq := range seqs {
		facts = append(facts, verbs.FabricFact{Kind: verbs.FabricSent, Session: 1, Seq: seq})
	}
	return facts
}

// report makes the current Run return facts.
func (f *fakeFabric) report(facts ...verbs.FabricFact) {
	f.results <- facts
	synctest.Wait()
}
