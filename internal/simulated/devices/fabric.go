package devices

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
)

// fabricEnd implements verbs.FabricEndpoint. Its peers are hosts of the scenario or other Fabrics of this world.
type fabricEnd struct {
	d *device
	c verbs.FabricConfig
	lifetime
	ud      []uint32
	qkey    uint32
	inbox   inbox
	rcs     connections
	nudge   wake.Signal // holds a token after Nudge
	counter fabricCounter

	mu       sync.Mutex // guards the members below, which Run and the orders share
	pairs    [verbs.MaxFabricPairs]*fabricPair
	offered  [verbs.MaxFabricPairs]*fabricPair
	joins    map[string]int // number of joins by peer
	dry      [verbs.MaxFabricPaths]uint64
	expected int64 // time at which Run intended to check deadlines next
}

// fabricReceives is the number of receives of a UD queue pair, as in the native backend.
const fabricReceives = 64

// NewFabricEndpoint implements verbs.Device.
func (d *device) NewFabricEndpoint(c verbs.FabricConfig) (verbs.FabricEndpoint, verbs.FabricPort, error) {
	f, port, err := d.newFabric(c)
	if err != nil {
		return nil, verbs.FabricPort{}, opError("new fabric", d.attr.Name, c.Port, err)
	}
	return f, port, nil
}

func (d *device) newFabric(c verbs.FabricConfig) (*fabricEnd, verbs.FabricPort, error) {
	if !d.gate.enter() {
		return nil, verbs.FabricPort{}, verbs.ErrClosed
	}
	defer d.gate.leave()
	port, err := d.fabricPort(c)
	if err != nil {
		return nil, port, err
	}
	slot, err := d.led.AddFabric(c.Port)
	if err != nil {
		return nil, port, fmt.Errorf("%w: %w", verbs.ErrLimit, err)
	}
	f := &fabricEnd{
		d: d, c: c, counter: fabricCounter{led: d.led, slot: slot}, lifetime: newLifetime(),
		inbox: inbox{arrived: wake.New()}, nudge: wake.New(), joins: map[string]int{},
		rcs: connections{to: map[uint32]uint32{}},
	}
	if err := d.addFabric(f); err != nil {
		return nil, port, err
	}
	d.w.fabric.add(f, d.w.random(d.h.attr.Name, c.Port, 0, "qkey").Uint32()>>1)
	port.UD, port.QKey = slices.Clone(f.ud), f.qkey
	return f, port, nil
}

// fabricPort returns the description of a port without queue pairs.
func (d *device) fabricPort(c verbs.FabricConfig) (verbs.FabricPort, error) {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	d.h.advance(d.w.clock())
	switch {
	case d.gone:
		return verbs.FabricPort{}, verbs.ErrNoDevice
	case c.Port < 1 || c.Port > len(d.h.ports):
		return verbs.FabricPort{}, fmt.Errorf("%w: the device has %d ports", verbs.ErrUnsupported, len(d.h.ports))
	case c.Interval <= 0:
		return verbs.FabricPort{}, fmt.Errorf("%w: no interval", verbs.ErrUnsupported)
	case c.Paths < 1 || c.Paths > verbs.MaxFabricPaths:
		return verbs.FabricPort{}, fmt.Errorf("%w: %d paths", verbs.ErrUnsupported, c.Paths)
	}
	l := &d.h.ports[c.Port-1]
	switch {
	case !l.probesHosts():
		return verbs.FabricPort{}, verbs.ErrNeverFabric
	case !l.isUp:
		return verbs.FabricPort{}, fmt.Errorf("%w: the port is not active", verbs.ErrUnsupported)
	case c.PKeyIndex >= l.pkeys:
		return verbs.FabricPort{}, fmt.Errorf("%w: P_Key index %d of %d", verbs.ErrUnsupported, c.PKeyIndex, l.pkeys)
	}
	port := verbs.FabricPort{
		Port: c.Port, LinkLayer: l.attr.LinkLayer, LID: l.attr.LID, MTU: l.attr.MTU, PKey: defaultPKey, GIDs: fabricGIDs(l, c.GIDIndex),
	}
	if len(port.GIDs) == 0 {
		return port, fmt.Errorf("%w: the port has no GID that packets may be sent from", verbs.ErrUnsupported)
	}
	return port, nil
}

// defaultPKey is the P_Key of the default partition, with full membership.
const defaultPKey = 0xffff

// probesHosts reports whether a port supports the queue pairs that a Fabric needs.
func (p *portSpec) probesHosts() bool {
	return slices.Contains(p.methods, verbs.MethodRCWrite) && slices.Contains(p.methods, verbs.MethodUDSend)
}

// fabricGIDs returns the entries of a port's GID table that a Fabric may send from. Routable ones come first. If index is not negative, only
// the entry with that index is returned.
func fabricGIDs(l *link, index int) []verbs.FabricGID {
	var routable, local []verbs.FabricGID
	for _, g := range l.table {
		if l.attr.LinkLayer == verbs.LinkEthernet && g.Type != verbs.GIDRoCEv2 || index >= 0 && g.Index != index {
			continue
		}
		usable := verbs.FabricGID{Index: g.Index, Raw: g.Raw}
		if g.IsLinkLocal() {
			local = append(local, usable)
		} else {
			routable = append(routable, usable)
		}
	}
	return append(routable, local...)
}

// UD implements verbs.FabricEndpoint.
func (f *fabricEnd) UD() (numbers []uint32, qkey uint32) { return slices.Clone(f.ud), f.qkey }

// Offer implements verbs.FabricEndpoint.
func (f *fabricEnd) Offer(pair int, role verbs.FabricRole) (rc uint32, err error) {
	err = f.runOrder("ibv_create_qp", pair, func() error {
		rc = f.d.w.fabric.newNumber()
		f.offered[pair] = &fabricPair{f: f, slot: pair, rc: rc, offered: role}
		return nil
	})
	return rc, err
}

// Join implements verbs.FabricEndpoint.
func (f *fabricEnd) Join(pair int, peer *verbs.FabricPeer) error {
	err := f.runOrder("ibv_modify_qp", pair, func() error {
		p := f.offered[pair]
		if p == nil || len(peer.UD) == 0 || len(peer.UD) > f.c.Paths {
			f.offered[pair] = nil
			return unix.EINVAL
		}
		f.disconnectPair(f.pairs[pair])
		f.offered[pair], f.pairs[pair] = nil, p
		f.connectPair(p, peer)
		return nil
	})
	f.inbox.arrived.Send()
	return err
}

// Leave implements verbs.FabricEndpoint.
func (f *fabricEnd) Leave(pair int) error {
	return f.runOrder("ibv_destroy_qp", pair, func() error {
		f.disconnectPair(f.pairs[pair])
		f.pairs[pair], f.offered[pair] = nil, nil
		return nil
	})
}

// runOrder carries out an order for a slot.
func (f *fabricEnd) runOrder(op string, pair int, do func() error) error {
	err := verbs.ErrClosed
	switch {
	case pair < 0 || pair >= verbs.MaxFabricPairs:
		err = fmt.Errorf("%w: place %d of %d", unix.EINVAL, pair, verbs.MaxFabricPairs)
	case f.gate.enter():
		defer f.gate.leave()
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, err = f.linkState(); err == nil {
			err = do()
		}
	}
	return opError(op, f.d.attr.Name, f.c.Port, err)
}

// linkState reports whether the port is active. It returns ErrNoDevice after the removal of the device.
func (f *fabricEnd) linkState() (active bool, err error) {
	h := f.d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advance(f.d.w.clock())
	if f.d.gone {
		return false, verbs.ErrNoDevice
	}
	return h.ports[f.c.Port-1].isUp, nil
}

// Nudge implements verbs.FabricEndpoint.
func (f *fabricEnd) Nudge() { f.nudge.Send() }

// Close implements verbs.FabricEndpoint.
func (f *fabricEnd) Close(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return opError("close fabric", f.d.attr.Name, f.c.Port, f.closeOnce(ctx, f.destroy))
}

// close is called by the device.
func (f *fabricEnd) close(ctx context.Context) error { return f.closeFromDevice(ctx, f.destroy) }

func (f *fabricEnd) recordControlCall(call ledger.Call, now int64) {
	f.counter.setControlCall(call, f.c.Port, now)
}

func (f *fabricEnd) destroy(ctx context.Context) error {
	if !f.gate.wait(ctx) {
		return verbs.ErrStuck
	}
	f.mu.Lock()
	for i := range f.pairs {
		f.disconnectPair(f.pairs[i])
		f.pairs[i], f.offered[i] = nil, nil
	}
	f.mu.Unlock()
	f.d.w.fabric.remove(f)
	f.inbox.close()
	if err := f.d.runDestroy(ctx, f.recordControlCall, ledger.CallDestroyQP); err != nil {
		return err
	}
	f.d.forgetFabric(f)
	return nil
}
