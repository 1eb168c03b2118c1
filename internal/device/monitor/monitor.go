package monitor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// maxForgettable is how many devices that are gone keep their counters. Only device
// names that never come back can reach this limit.
const maxForgettable = 256

// forgettable is after how long a virtual function that is gone, or a soft device that was deleted, is forgotten. Pods and
// virtual machines give functions back, tests delete the soft devices that they made, and the next ones have other names: each
// would report for ever that it is not there. Its counters stay in those of the host.
const forgettable = time.Hour

// Monitor monitors all devices of the host. Run and Gather may be called concurrently
// with each other.
type Monitor struct {
	cfg      Config
	clock    clock
	delivery delivery
	wg       sync.WaitGroup // one goroutine per supervised device, and that of Review
	reviews  chan chan struct{}

	mu         sync.Mutex
	devices    []*Device // by name
	last       []verbs.Found
	discovered bool // discovery has answered
	functions  functions
	forgotten  totals

	// Used only by the goroutine that calls Gather.
	gathered int64 // CLOCK_MONOTONIC ns of the last Gather
	scratch  aggregate.Scratch
}

// totals are the sums of counters that are kept of a forgotten device.
type totals struct {
	events, restarts uint64
	merged           uint64 // triggers that went into the snapshot of another one
	host             measure.HostTotals
}

func (t *totals) add(o totals) {
	t.events += o.events
	t.restarts += o.restarts
	t.merged += o.merged
	t.host.Flaps += o.host.Flaps
	t.host.MissedTransitions += o.host.MissedTransitions
	t.host.LostEvents += o.host.LostEvents
	t.host.LostCompletions += o.host.LostCompletions
	t.host.Errors += o.host.Errors
	t.host.GIDMoves += o.host.GIDMoves
}

// New returns a Monitor, which does nothing before Run.
func New(c Config) *Monitor {
	m := &Monitor{cfg: c.withDefaults(), delivery: newDelivery(c.Window), reviews: make(chan chan struct{})}
	m.clock.now = m.cfg.Now
	m.clock.back = func(by time.Duration) {
		m.cfg.Log.Warn("the wall clock was set back; time stamps follow it", "by", by.String())
	}
	_, m.gathered, _ = m.cfg.Now()
	for _, name := range m.cfg.Expect {
		m.device(name)
	}
	m.awaitRemembered()
	return m
}

// Run monitors until ctx ends, then waits for the Supervisors, and returns
// nil. It returns an error when devices cannot be discovered. It may be called
// once.
func (m *Monitor) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.judgeRest()
	defer m.wg.Wait()
	defer cancel()
	m.wg.Go(func() { m.serveReviews(ctx) })
	m.wg.Go(func() { m.retryAll(ctx) })
	err := m.cfg.Discovery.Run(ctx, func(found []verbs.Found) { m.update(ctx, found) })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("discover RDMA devices: %w", err)
	}
	<-ctx.Done()
	return nil
}

// update compares the devices that are present with those known.
func (m *Monitor) update(ctx context.Context, found []verbs.Found) {
	t := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chooseFunctions(found)
	for _, d := range m.devices {
		if !slices.ContainsFunc(found, func(f verbs.Found) bool { return f.Name == d.name && m.wants(f) }) {
			d.vanish(m.nameNow(d, found), &t)
			known, _ := d.identity()
			m.applyRelease(ctx, d, known, &t)
		}
	}
	for _, f := range found {
		if !m.wants(f) {
			continue
		}
		d := m.device(f.Name)
		known := f
		if old, seen := d.identity(); seen && f.Netns == verbs.NetnsOther {
			known = old // sysfs has less of a device in another network namespace
		}
		m.applyRelease(ctx, d, known, &t)
		d.setMemorable(m.isMemorable(f, found))
		if d.appear(f, &t) {
			m.supervise(ctx, d)
		}
	}
	m.findRenamed(found)
	m.last, m.discovered = slices.Clone(found), true
	for _, d := range m.devices {
		d.explainAbsence(m.last, &t)
		d.retryNow(&t)
	}
	m.forget(&t)
}

// judgeRest emits the evidence about what waits for a removal to be confirmed, and counts the device_fatal events and removals that wait.
func (m *Monitor) judgeRest() {
	t := m.clock.read()
	for _, d := range m.listDevices() {
		d.mu.Lock()
		d.judgeAll(&t)
		d.endCounts(&t)
		d.emitIfChanged(&t)
		d.mu.Unlock()
	}
}

// LegsChanged emits each port for whose bond Config.Legs has another answer than before. It does not block.
func (m *Monitor) LegsChanged() {
	t := m.clock.read()
	for _, d := range m.listDevices() {
		d.legsChanged(&t)
	}
}

func (d *Device) legsChanged(t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.ports {
		if p.answered && p.legsNow(d.cfg.Legs) != p.legs {
			d.emitPort(p, t.mono, t)
		}
	}
}

// wants reports whether a device of the set that chooseFunctions got last is monitored. The caller holds m.mu.
func (m *Monitor) wants(f verbs.Found) bool {
	return m.cfg.Devices(f.Name) && !m.functions.skipped[f.Name] && !m.functions.elsewhere[f.Name]
}

func (d *Device) identity() (f verbs.Found, seen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found, d.seen
}

// device returns the device of a name, and creates it if necessary.
func (m *Monitor) device(name string) *Device {
	i, ok := slices.BinarySearchFunc(m.devices, name, func(d *Device, n string) int { return strings.Compare(d.name, n) })
	if !ok {
		m.devices = slices.Insert(m.devices, i, newDevice(name, m))
	}
	return m.devices[i]
}

// overview is what a Monitor knows of the host at one moment. Its slices do not change any more.
type overview struct {
	devices    []*Device
	forgotten  totals
	found      []verbs.Found
	skipped    int // functions that Config.VirtualFunctions leaves out
	discovered bool
}

func (m *Monitor) overviewNow(t *moment) overview {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(t)
	return overview{slices.Clone(m.devices), m.forgotten, m.last, len(m.functions.skipped), m.discovered}
}

func (m *Monitor) listDevices() []*Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.devices)
}

// forget drops virtual functions and soft devices that have been gone for forgettable, and the devices
// that have been gone longest, if more than maxForgettable are gone. The caller holds m.mu.
func (m *Monitor) forget(t *moment) {
	gone := map[*Device]int64{}
	drop := func(d *Device) {
		m.forgotten.add(d.leaveBehind(t))
		m.devices = slices.DeleteFunc(m.devices, func(o *Device) bool { return o == d })
	}
	for _, d := range slices.Clone(m.devices) {
		at, ok := d.gone()
		switch f, _ := d.identity(); {
		case ok && (f.VirtualFunction || d.isDeleted()) && t.mono-at >= int64(forgettable):
			drop(d)
		case ok:
			gone[d] = at
		}
	}
	excess := len(gone) - maxForgettable
	if excess <= 0 {
		return
	}
	byAge := slices.SortedFunc(maps.Keys(gone), func(a, b *Device) int {
		return cmp.Or(cmp.Compare(gone[a], gone[b]), strings.Compare(a.name, b.name))
	})
	for _, d := range byAge[:excess] {
		drop(d)
	}
}

// gone returns since when the device has been gone, CLOCK_MONOTONIC ns, and whether it
// may be forgotten.
func (d *Device) gone() (at int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.goneAt, !d.present && !d.netns.other && !d.expected && !d.isAwaited() && !d.watching
}

func (d *Device) isDeleted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason == status.ReasonDeleted
}

// leaveBehind ends the supervision of a device that is about to be forgotten, and
// returns its totals.
func (d *Device) leaveBehind(t *moment) totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dismiss()
	d.readLedger(t)
	return d.totals(t)
}
