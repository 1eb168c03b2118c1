package verbstest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// TB is the part of testing.TB that Track needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Cleanup(func())
}

// Track wraps a backend. At the end of the test it fails the test for each device, probe or
// FabricEndpoint that is still open, with the stack of its creation. Cleanups that close
// them must be registered after Track. A Close that returned verbs.ErrStuck counts as
// closed.
func Track(t TB, b verbs.Backend) verbs.Backend {
	t.Helper()
	open := &openObjects{made: map[any]origin{}}
	t.Cleanup(func() { open.report(t) })
	return &trackedBackend{b: b, open: open}
}

// openObjects is the set of open objects. It may be used concurrently.
type openObjects struct {
	mu   sync.Mutex
	made map[any]origin
}

type origin struct {
	what   string
	parent any // the device of a probe or FabricEndpoint
	stack  string
}

// add records an object. It ignores an object whose device was closed meanwhile, since the
// object was closed with the device.
func (o *openObjects) add(object any, what string, parent any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, open := o.made[parent]; parent != nil && !open {
		return
	}
	o.made[object] = origin{what: what, parent: parent, stack: callerStack()}
}

// remove removes an object and its children: closing a device closes its probes and
// FabricEndpoints.
func (o *openObjects) remove(object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.made, object)
	for child, from := range o.made {
		if from.parent == object {
			delete(o.made, child)
		}
	}
}

func (o *openObjects) report(t TB) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, from := range o.made {
		t.Errorf("%s was not closed; it was made at\n%s", from.what, from.stack)
	}
}

// callerStack returns the stack above this package's wrappers.
func callerStack() string {
	var pcs [32]uintptr
	const wrappers = 4 // Callers, callerStack, add, Open, NewProbe or NewFabricEndpoint
	frames := runtime.CallersFrames(pcs[:runtime.Callers(wrappers, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return b.String()
		}
	}
}

type trackedBackend struct {
	b    verbs.Backend
	open *openObjects
}

func (b *trackedBackend) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.b.Open(name, led)
	if err != nil {
		return nil, err
	}
	tracked := &trackedDevice{Device: d, open: b.open}
	b.open.add(tracked, "device "+name, nil)
	return tracked, nil
}

type trackedDevice struct {
	verbs.Device
	open *openObjects
}

func (d *trackedDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	p, err := d.Device.NewProbe(c)
	if err != nil {
		return nil, err
	}
	tracked := &trackedProbe{Probe: p, open: d.open}
	what := fmt.Sprintf("probe %s port %d vector %d %v", d.Attr().Name, c.Port, c.Vector, c.Method)
	d.open.add(tracked, what, d)
	return tracked, nil
}

func (d *trackedDevice) NewFabricEndpoint(c verbs.FabricConfig) (verbs.FabricEndpoint, verbs.FabricPort, error) {
	f, port, err := d.Device.NewFabricEndpoint(c)
	if err != nil {
		return nil, port, err
	}
	tracked := &trackedFabric{FabricEndpoint: f, open: d.open}
	d.open.add(tracked, fmt.Sprintf("fabric of %s port %d", d.Attr().Name, c.Port), d)
	return tracked, port, nil
}

func (d *trackedDevice) Close(timeout time.Duration) error {
	err := d.Device.Close(timeout)
	if isClosed(err) {
		d.open.remove(d)
	}
	return err
}

type trackedProbe struct {
	verbs.Probe
	open *openObjects
}

func (p *trackedProbe) Close(timeout time.Duration) error {
	err := p.Probe.Close(timeout)
	if isClosed(err) {
		p.open.remove(p)
	}
	return err
}

type trackedFabric struct {
	verbs.FabricEndpoint
	open *openObjects
}

func (f *trackedFabric) Close(timeout time.Duration) error {
	err := f.FabricEndpoint.Close(timeout)
	if isClosed(err) {
		f.open.remove(f)
	}
	return err
}

// isClosed reports whether a Close that returned err leaves nothing to close.
func isClosed(err error) bool {
	return err == nil || errors.Is(err, verbs.ErrStuck) || errors.Is(err, verbs.ErrClosed)
}
