package devices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// New returns a backend that opens the world's devices.
func New(w *World) verbs.Backend { return backend{w} }

type backend struct{ w *World }

// Open implements verbs.Backend.
func (b backend) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	now := b.w.clock()
	h := b.w.findDevice(name, now)
	if h == nil {
		return nil, opError("ibv_open_device", name, 0, verbs.ErrNoDevice)
	}
	if f, _ := h.fault(openError, 0, 0, now); f != nil {
		return nil, opError("ibv_open_device", name, 0, f.err)
	}
	d := &device{
		w: b.w, h: h, led: led, attr: h.attr, gate: newGate(),
		eventQueued: wake.New(),
		random:      b.w.random(h.attr.Name, 0, 0, "async"),
		probes:      map[*probe]struct{}{}, fabrics: map[*fabricEnd]struct{}{},
	}
	d.attr.Name = name
	h.mu.Lock()
	defer h.mu.Unlock()
	// Entries that are due now happened before the device was opened.
	h.advance(now)
	if h.gone > 0 {
		return nil, opError("ibv_open_device", name, 0, verbs.ErrNoDevice)
	}
	h.open[d] = struct{}{}
	return d, nil
}

// WaitRemoved waits until the device that has this name now is removed. It returns the
// error of ctx if ctx ends first.
func (b backend) WaitRemoved(ctx context.Context, device string) error {
	at, ever := b.w.Removed(device, b.w.clock())
	if !ever {
		<-ctx.Done()
		return ctx.Err()
	}
	if !b.w.Sleep(at, ctx.Done()) {
		return ctx.Err()
	}
	return nil
}

func opError(op, device string, port int, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.OpError{Op: op, Device: device, Port: port, Err: err}
}

// device is an open device.
type device struct {
	w           *World
	h           *hardware
	led         *ledger.Ledger
	attr        verbs.DeviceAttr
	gate        *gate
	eventQueued wake.Signal // holds a token after an event was queued, even if it was read since
	random      *rand.Rand  // used by the reader

	queue []pending // guarded by h.mu
	gone  bool      // guarded by h.mu

	mu       sync.Mutex
	closed   bool // no probe or Fabric can be added any more
	probes   map[*probe]struct{}
	fabrics  map[*fabricEnd]struct{}
	commands uint64 // number of commands so far
}

// Attr implements verbs.Device.
func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// QueryPort implements verbs.Device.
func (d *device) QueryPort(port int) (verbs.PortAttr, error) {
	attr, err := d.queryPort(port)
	return attr, opError("ibv_query_port", d.attr.Name, port, err)
}

func (d *device) queryPort(port int) (verbs.PortAttr, error) {
	if !d.gate.enter() {
		return verbs.PortAttr{}, verbs.ErrClosed
	}
	defer d.gate.leave()
	if port < 1 || port > len(d.h.ports) {
		return verbs.PortAttr{}, fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, len(d.h.ports))
	}
	now := d.w.clock()
	d.led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: port, Since: now})
	if f, end := d.h.fault(hangQuery, port, 0, now); f != nil && !d.w.Sleep(end, d.gate.abandoned) {
		return verbs.PortAttr{}, verbs.ErrClosed
	}
	defer func() { d.led.SetControlCall(ledger.ThreadCall{Since: d.w.clock()}) }()
	if err := d.awaitQueryAnswer(port); err != nil {
		return verbs.PortAttr{}, err
	}
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	d.h.advance(d.w.clock())
	if d.gone {
		return verbs.PortAttr{}, verbs.ErrNoDevice
	}
	return d.h.ports[port-1].query(), nil
}

// Close implements verbs.Device.
func (d *device) Close(timeout time.Duration) error {
	if !d.gate.shut() {
		return opError("ibv_close_device", d.attr.Name, 0, verbs.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer d.gate.abandon()
	err := d.destroyAll(ctx)
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	delete(d.h.open, d)
	return opError("ibv_close_device", d.attr.Name, 0, err)
}

func (d *device) destroyAll(ctx context.Context) error {
	var stuck error
	for _, p := range d.takeParts() {
		if err := p.close(ctx); stuck == nil {
			stuck = err
		}
	}
	switch {
	case !d.gate.wait(ctx):
		return verbs.ErrStuck
	case stuck != nil:
		return stuck
	}
	if err := d.readRemaining(ctx); err != nil {
		return err
	}
	return d.runDestroy(ctx, func(c ledger.Call, now int64) { d.led.SetControlCall(ledger.ThreadCall{Call: c, Since: now}) }, ledger.CallCloseDevice)
}

// runDestroy simulates a destroy call, which takes as long as a stuck_close lasts. If
// ctx ends first, it returns verbs.ErrStuck and the ledger still shows a thread in that
// call.
func (d *device) runDestroy(ctx context.Context, setThreadState func(ledger.Call, int64), call ledger.Call) error {
	now := d.w.clock()
	setThreadState(call, now)
	if f, end := d.h.fault(stuckClose, 0, 0, now); f != nil && !d.w.Sleep(end, ctx.Done()) {
		return verbs.ErrStuck
	}
	setThreadState(ledger.CallNone, d.w.clock())
	return nil
}

// part is a probe or a Fabric.
type part interface {
	close(ctx context.Context) error
}

// takeParts returns all open parts. No part can be added afterwards.
func (d *device) takeParts() []part {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var parts []part
	for p := range d.probes {
		parts = append(parts, p)
	}
	for f := range d.fabrics {
		parts = append(parts, f)
	}
	return parts
}

func (d *device) addProbe(p *probe) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	d.probes[p] = struct{}{}
	return nil
}

func (d *device) addFabric(f *fabricEnd) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	for other := range d.fabrics {
		if other.c.Port == f.c.Port {
			return fmt.Errorf("%w: the port has a Fabric", verbs.ErrLimit)
		}
	}
	d.fabrics[f] = struct{}{}
	return nil
}

func (d *device) forgetFabric(f *fabricEnd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fabrics, f)
}

func (d *device) forgetProbe(p *probe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.probes, p)
}
