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

// maxGoneDevices limits how many absent devices keep their counters. Only hosts whose
// device names never come back reach the limit.
const maxGoneDevices = 256

// forgetAfter is the time after which the Monitor forgets a virtual function that is gone, or a soft device that was deleted. Pods and
// virtual machines give functions back, tests delete the soft devices that they made, and the next ones have other names: without the
// limit each old name would be reported as missing for ever. The host's counters keep the counts of a forgotten device.
const forgetAfter = time.Hour

// Monitor monitors all devices of the host. Run and Gather may be called concurrently
// with each other.
type Monitor struct {
	cfg      Config
	clock    clock
	delivery delivery
	wg       sync.WaitGroup // one goroutine per supervised device, serveReviews and runRetries
	reviews  chan chan struct{}

	mu         sync.Mutex
	devices    []*Device // by name
	last       []verbs.Found
	discovered bool // discovery has reported at least once
	functions  functions
	forgotten  totals

	// Used only by the goroutine that calls Gather.
	gathered int64 // CLOCK_MONOTONIC ns of the last Gather
	scratch  aggregate.Scratch
}

// totals holds sums of a device's counters. The Monitor keeps them when it forgets the device.
type totals struct {
	events, restarts uint64
	merged           uint64 // triggers that share the snapshot of another trigger
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
	m.clock.onSetBack = func(by time.Duration) {
		m.cfg.Log.Warn("wall clock set back", "by", by.String())
	}
	_, m.gathered, _ = m.cfg.Now()
	for _, name := range m.cfg.Expect {
		m.ensureDevice(name)
	}
	m.addRemembered()
	return m
}

// Run monitors until ctx ends, then waits for the Supervisors, and returns
// nil. It returns an error when devices cannot be discovered. It may be called
// once.
func (m *Monitor) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.judgeRemaining()
	defer m.wg.Wait()
	defer cancel()
	m.wg.Go(func() { m.serveReviews(ctx) })
	m.wg.Go(func() { m.cfg.Repeat(ctx, retryInterval, m.retryDevices) })
	err := m.cfg.Discovery.Run(ctx, func(found []verbs.Found) { m.updateDevices(ctx, found) })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("discover RDMA devices: %w", err)
	}
	<-ctx.Done()
	return nil
}

// updateDevices applies a report of discovery, which lists all devices that are present, to the known devices.
func (m *Monitor) updateDevices(ctx context.Context, found []verbs.Found) {
	t := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chooseFunctions(found)
	for _, d := range m.devices {
		if !slices.ContainsFunc(found, func(f verbs.Found) bool { return f.Name == d.name && m.shouldMonitor(f) }) {
			d.handleMissing(m.findNewName(d, found), &t)
			known, _ := d.identity()
			m.applyRelease(ctx, d, known, &t)
		}
	}
	for _, f := range found {
		if !m.shouldMonitor(f) {
			continue
		}
		d := m.ensureDevice(f.Name)
		known := f
		if old, seen := d.identity(); seen && f.Netns == verbs.NetnsOther {
			known = old // sysfs shows fewer attributes of a device in another network namespace
		}
		m.applyRelease(ctx, d, known, &t)
		d.setMemorable(m.shouldRemember(f, found))
		if d.handleFound(f, &t) {
			m.supervise(ctx, d)
		}
	}
	m.findRenamed(found)
	m.last, m.discovered = slices.Clone(found), true
	for _, d := range m.devices {
		d.explainAbsence(m.last, &t)
		d.retryAndEmit(&t)
	}
	m.forgetGone(&t)
}

// judgeRemaining judges the triggers that still wait, and counts the device_fatal events and removals that are still undecided.
func (m *Monitor) judgeRemaining() {
	t := m.clock.read()
	for _, d := range m.listDevices() {
		d.mu.Lock()
		d.judgeAllTriggers(&t)
		d.settleCounts(&t)
		d.emitIfChanged(&t)
		d.mu.Unlock()
	}
}

// LegsChanged emits each port whose bond has other values in Config.Legs than in the port's last point. It does not block.
func (m *Monitor) LegsChanged() {
	t := m.clock.read()
	for _, d := range m.listDevices() {
		d.emitChangedLegs(&t)
	}
}

func (d *Device) emitChangedLegs(t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.ports {
		if before := p.legs; d.updateLegs(p, t) != before && p.answered {
			d.emitPort(p, t.mono, t)
		}
	}
}

// shouldMonitor reports whether a device of the last set passed to chooseFunctions is to be monitored. The caller holds m.mu.
func (m *Monitor) shouldMonitor(f verbs.Found) bool {
	return m.cfg.Devices(f.Name) && !m.functions.skipped[f.Name] && !m.functions.elsewhere[f.Name]
}

func (d *Device) identity() (f verbs.Found, seen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found, d.seen
}

// ensureDevice returns the device with a name, and creates it if necessary.
func (m *Monitor) ensureDevice(name string) *Device {
	i, ok := slices.BinarySearchFunc(m.devices, name, func(d *Device, n string) int { return strings.Compare(d.name, n) })
	if !ok {
		m.devices = slices.Insert(m.devices, i, newDevice(name, m))
	}
	return m.devices[i]
}

// overview is a consistent copy of the Monitor's state. Its slices do not change any more.
type overview struct {
	devices    []*Device
	forgotten  totals
	found      []verbs.Found
	skipped    int // functions that Config.VirtualFunctions excludes
	discovered bool
}

// takeOverview forgets devices that have been gone for too long, and returns an overview.
func (m *Monitor) takeOverview(t *moment) overview {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetGone(t)
	return overview{slices.Clone(m.devices), m.forgotten, m.last, len(m.functions.skipped), m.discovered}
}

func (m *Monitor) listDevices() []*Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.devices)
}

// forgetGone drops virtual functions and soft devices that have been gone for forgetAfter. If more than maxGoneDevices
// are still gone, it also drops the ones that have been gone longest. The caller holds m.mu.
func (m *Monitor) forgetGone(t *moment) {
	gone := map[*Device]int64{}
	drop := func(d *Device) {
		m.forgotten.add(d.retire(t))
		m.devices = slices.DeleteFunc(m.devices, func(o *Device) bool { return o == d })
	}
	for _, d := range slices.Clone(m.devices) {
		at, ok := d.goneSince()
		switch f, _ := d.identity(); {
		case ok && (f.VirtualFunction || d.isDeleted()) && t.mono-at >= int64(forgetAfter):
			drop(d)
		case ok:
			gone[d] = at
		}
	}
	excess := len(gone) - maxGoneDevices
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

// goneSince returns when the device went, CLOCK_MONOTONIC ns, and whether the Monitor may
// forget it.
func (d *Device) goneSince() (at int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.goneAt, !d.present && !d.netns.other && !d.expected && !d.isAwaited() && !d.watching
}

func (d *Device) isDeleted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason == status.ReasonDeleted
}

// retire ends the supervision of a device that the Monitor is about to forget, and
// returns its totals.
func (d *Device) retire(t *moment) totals {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endSupervision()
	d.readLedger(t)
	return d.totals(t)
}
