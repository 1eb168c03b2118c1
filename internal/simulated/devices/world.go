package devices

import (
	"fmt"
	"slices"
	"syscall"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// Options describes a simulation. Processes that are to see the same world must pass
// the same Profile, Scenario, Seed and Epoch.
type Options struct {
	Profile  string // see docs/reference/scenario.md
	Scenario string // "" (healthy), a built-in name, or a path
	Timeline string // the text of a scenario; unless "", it replaces Scenario
	Seed     int64
	Epoch    int64 // CLOCK_MONOTONIC ns at which the timeline starts; 0: now
	Clock    Clock // nil: CLOCK_MONOTONIC
	// Wait is for a Clock that does not keep pace with timers. It returns true when
	// Clock has reached until, and false to end the caller as Close does. It may let
	// other goroutines of the same world run. Nil: timers.
	Wait func(until int64) bool

	// Die ends this process when a crash is due on a device that the process has
	// open. The goroutine in ReadEvents calls it. It may return; the crash then has
	// no consequences. The same holds for nil.
	Die func(syscall.Signal)
}

// World is the simulated hardware with its timeline. Its methods may be called
// concurrently, and only Sleep blocks.
type World struct {
	clock    Clock
	waits    func(until int64) bool
	die      func(syscall.Signal)
	seed     int64
	hardware []*hardware
	tracer   map[faultKind][]fault // not changed after Load
	ways     []wayEntry            // likewise
	peers    []peerEntry           // likewise
	stage    stage
	fabric   fabricEnds
}

// Load builds a world. Its error is one line that names the problem and the allowed
// values, with file and line if the problem is in a scenario's file.
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
	specs, err := profile(o.Profile)
	if err != nil {
		return nil, err
	}
	s, locate, err := load(o.Scenario, o.Timeline)
	if err != nil {
		return nil, err
	}
	w := &World{clock: o.Clock, waits: o.Wait, die: o.Die, seed: o.Seed, tracer: map[faultKind][]fault{}}
	for i, sp := range specs {
		w.hardware = append(w.hardware, newHardware(i, sp))
	}
	if err := w.plan(s, o.Epoch); err != nil {
		return nil, locate(err)
	}
	return w, nil
}

// Now returns the world's CLOCK_MONOTONIC in ns.
func (w *World) Now() int64 { return w.clock() }

// Sleep waits until a moment of Now, and reports whether it came before stop.
func (w *World) Sleep(until int64, stop <-chan struct{}) bool {
	if w.waits != nil {
		return w.waits(until)
	}
	return w.clock.sleep(until, stop)
}

// Devices returns the names of the devices that are present at a moment of
// CLOCK_MONOTONIC, in the profile's order.
func (w *World) Devices(at int64) []string {
	var names []string
	for _, h := range w.hardware {
		if h.present(at) {
			names = append(names, h.nameAt(at))
		}
	}
	return names
}

// NextChange returns the first moment later than at when the result of Devices
// changes: a device appears, disappears or gets a new name. If entries of a scenario
// overlap, the result at that moment may be unchanged. False: there is no such
// moment.
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

// Removed returns when the device that has this name at the moment after is removed
// next. If no such device is present then, it returns after. A new name is no
// removal. False: the device stays.
func (w *World) Removed(device string, after int64) (int64, bool) {
	h := w.find(device, after)
	if h == nil {
		return after, true
	}
	next := int64(never)
	for _, f := range h.faults[removed] {
		next = min(next, f.next(after))
	}
	return next, next != never
}

// find returns the present device of that name, nil if there is none.
func (w *World) find(name string, at int64) *hardware {
	for _, h := range w.hardware {
		if h.present(at) && h.nameAt(at) == name {
			return h
		}
	}
	return nil
}

// Inject makes count events of one type happen now, on every handle that has the
// device open. port is 0 unless the type's scope is verbs.ScopePort.
func (w *World) Inject(device string, typ verbs.EventType, port int, count uint64) error {
	h := w.find(device, w.clock())
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

// SetLink takes the link of a port down now, or ends that if up is true. The link
// stays down as long as an entry of the scenario holds it down, too.
func (w *World) SetLink(device string, port int, up bool) error {
	return w.atPort("set link", device, port, func(h *hardware, l *link, now int64) {
		if l.held = !up; l.held {
			l.why = noCarrier
		}
		h.settle(port, now)
	})
}

// atPort does something at a port now, after what the timeline has for this moment.
func (w *World) atPort(what, device string, port int, do func(h *hardware, l *link, now int64)) error {
	h := w.find(device, w.clock())
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

// names lists the devices of the profile for an error text.
func (w *World) names() string {
	first, last := w.hardware[0].attr.Name, w.hardware[len(w.hardware)-1].attr.Name
	if first == last {
		return first
	}
	return first + " to " + last
}

func (w *World) taken(name string) bool {
	return slices.ContainsFunc(w.hardware, func(h *hardware) bool { return h.attr.Name == name })
}
