package devices

import (
	"fmt"
	"slices"
	"syscall"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// Options describes a simulation. Processes that share a world must pass the same
// Profile, Scenario, Seed and Epoch.
type Options struct {
	Profile  string // see docs/reference/scenario.md
	Scenario string // "" (healthy), a built-in name, or a path
	Timeline string // text of a scenario, which replaces Scenario; "": not used
	Seed     int64
	Vectors  int   // completion vectors of each device; 0: 8
	Epoch    int64 // CLOCK_MONOTONIC ns at which the timeline starts; 0: now
	Clock    Clock // nil: CLOCK_MONOTONIC
	// Wait replaces timers for a Clock that does not run in step with them. It returns
	// true when Clock has reached until. It returns false to end the caller, as Close
	// does. It may run other goroutines of the same world. Nil: timers are used.
	Wait func(until int64) bool

	// Die ends this process when a crash is due on a device that the process has open.
	// The goroutine in ReadEvents calls it. If it returns, or if it is nil, the crash has
	// no effect.
	Die func(syscall.Signal)
}

// World is the simulated hardware with its timeline. Its methods may be called
// concurrently, and only Sleep blocks.
type World struct {
	clock      Clock
	waits      func(until int64) bool
	die        func(syscall.Signal)
	seed       int64
	hardware   []*hardware
	tracer     map[faultKind][]fault // not changed after Load
	conditions []conditionEntry      // likewise
	peers      []peerEntry           // likewise
	actors     actorSet
	fabric     fabricEnds
}

// Load builds a world. Its error is one line with the problem and the allowed values,
// and with file and line if the problem is in a scenario's file.
func Load(o Options) (*World, error) {
	if o.Clock == nil {
		o.Clock = clock.Monotonic
	}
	if o.Epoch == 0 {
		o.Epoch = o.Clock()
	}
	if o.Die == nil {
		o.Die = func(syscall.Signal) {}
	}
	specs, err := profileSpecs(o.Profile)
	if err != nil {
		return nil, err
	}
	s, locate, err := loadScenario(o.Scenario, o.Timeline)
	if err != nil {
		return nil, err
	}
	w := &World{clock: o.Clock, waits: o.Wait, die: o.Die, seed: o.Seed, tracer: map[faultKind][]fault{}}
	for i, sp := range specs {
		if o.Vectors > 0 {
			sp.attr.Vectors = o.Vectors
		}
		w.hardware = append(w.hardware, newHardware(i, sp))
	}
	if err := w.plan(s, o.Epoch); err != nil {
		return nil, locate(err)
	}
	return w, nil
}

// Now returns the world's CLOCK_MONOTONIC in ns.
func (w *World) Now() int64 { return w.clock() }

// Sleep waits until Now reaches until. It returns false if stop is closed first.
func (w *World) Sleep(until int64, stop <-chan struct{}) bool {
	if w.waits != nil {
		return w.waits(until)
	}
	return w.clock.sleep(until, stop)
}

// Devices returns the names of the devices that are present at a time of
// CLOCK_MONOTONIC, in the order of the profile.
func (w *World) Devices(at int64) []string {
	var names []string
	for _, h := range w.hardware {
		if h.isPresent(at) {
			names = append(names, h.nameAt(at))
		}
	}
	return names
}

// NextChange returns the first time after at when the result of Devices changes: a
// device appears, disappears or gets a new name. If entries of a scenario overlap, the
// result may be unchanged at that time. It returns false if there is no such time.
func (w *World) NextChange(at int64) (int64, bool) {
	next := int64(never)
	for _, h := range w.hardware {
		for _, f := range h.faults[removed] {
			next = min(next, f.edge(at))
		}
		for _, f := range h.faults[renamed] {
			next = min(next, f.edge(at))
		}
	}
	return next, next != never
}

// Removed returns the time at which the device with this name at time after is removed
// next. If no such device is present at that time, it returns after. A new name is not
// a removal. It returns false if the device is never removed.
func (w *World) Removed(device string, after int64) (int64, bool) {
	h := w.findDevice(device, after)
	if h == nil {
		return after, true
	}
	next := int64(never)
	for _, f := range h.faults[removed] {
		next = min(next, f.next(after))
	}
	return next, next != never
}

// findDevice returns the device with a name at a time, or nil if there is none.
func (w *World) findDevice(name string, at int64) *hardware {
	for _, h := range w.hardware {
		if h.isPresent(at) && h.nameAt(at) == name {
			return h
		}
	}
	return nil
}

// Inject queues count events of one type now, on every handle that has the device open.
// port is 0 unless the type's scope is verbs.ScopePort.
func (w *World) Inject(device string, typ verbs.EventType, port int, count uint64) error {
	h := w.findDevice(device, w.clock())
	if h == nil {
		return fmt.Errorf("inject %v into %s: %w", typ, device, verbs.ErrNoDevice)
	}
	if wantsPort := typ.Scope() == verbs.ScopePort; wantsPort != (port != 0) || port > len(h.ports) {
		return fmt.Errorf("inject %v into %s: port %d: %w", typ, device, port, verbs.ErrUnsupported)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := w.clock()
	h.advance(now)
	h.emit(pending{typ: typ, port: port, count: count, due: now})
	return nil
}

// SetLink takes the link of a port down now, or ends that if up is true. The link also
// stays down while an entry of the scenario holds it down.
func (w *World) SetLink(device string, port int, up bool) error {
	return w.changePort("set link", device, port, func(h *hardware, l *link, now int64) {
		if l.held = !up; l.held {
			l.why = noCarrier
		}
		h.updateLink(port, now)
	})
}

// changePort calls do for a port, after all entries of the timeline that are due.
func (w *World) changePort(what, device string, port int, do func(h *hardware, l *link, now int64)) error {
	h := w.findDevice(device, w.clock())
	if h == nil || port < 1 || port > len(h.ports) {
		return fmt.Errorf("%s of %s port %d: %w", what, device, port, verbs.ErrNoDevice)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := w.clock()
	h.advance(now)
	do(h, &h.ports[port-1], now)
	return nil
}

// deviceNames lists the devices of the profile for an error text.
func (w *World) deviceNames() string {
	first, last := w.hardware[0].attr.Name, w.hardware[len(w.hardware)-1].attr.Name
	if first == last {
		return first
	}
	return first + " to " + last
}

func (w *World) isNameTaken(name string) bool {
	return slices.ContainsFunc(w.hardware, func(h *hardware) bool { return h.attr.Name == name })
}
