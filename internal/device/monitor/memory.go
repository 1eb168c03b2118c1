package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// openLong is how long a device must have been open without a break to be remembered.
const openLong = time.Minute

// awaitRemembered adds the devices that Config.Memory has and the configuration still wants. They are missing until they are found.
func (m *Monitor) awaitRemembered() {
	for _, r := range m.cfg.Memory.Devices() {
		if !r.Missed || !m.cfg.Devices(r.Name) {
			continue
		}
		d := m.device(r.Name)
		d.remembered = true
		d.found = verbs.Found{Name: r.Name, Index: -1, NodeGUID: r.NodeGUID, PCI: r.PCI, Driver: r.Driver}
	}
}

// isAwaited reports whether the device is remembered and has not been found since the start. The caller holds d.mu.
func (d *Device) isAwaited() bool { return d.remembered && !d.seen }

// findRenamed looks for remembered devices that have another name since the last boot, and no longer awaits them by the old one. A
// name that is remembered itself stands for a device of its own: where a card is missing, those behind it may have moved up by one
// number, and there is still one too few. The caller holds m.mu.
func (m *Monitor) findRenamed(found []verbs.Found) {
	var remembered []memory.Device
	for _, d := range slices.Clone(m.devices) {
		old, awaited := d.awaitedDevice()
		if !awaited {
			continue
		}
		if remembered == nil {
			remembered = m.cfg.Memory.Devices()
		}
		for _, f := range found {
			own := slices.ContainsFunc(remembered, func(r memory.Device) bool { return r.Name == f.Name })
			if f.Name == old.Name || own || !m.wants(f) || !m.cfg.goesOn(old, f) {
				continue
			}
			d.log.Info(fmt.Sprintf("%s is called %s since the last start", old.Name, f.Name))
			m.cfg.Memory.Rename(old.Name, f.Name)
			d.endMemory(0)
			if !d.expected {
				m.devices = slices.DeleteFunc(m.devices, func(o *Device) bool { return o == d })
			}
			break
		}
	}
}

func (d *Device) awaitedDevice() (old verbs.Found, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found, d.isAwaited()
}

// isMemorable reports whether a device that was found is to be remembered: all but virtual and scalable functions whose physical
// function is visible. Pods and virtual machines get these and give them back, which says nothing about the host.
func (m *Monitor) isMemorable(f verbs.Found, found []verbs.Found) bool {
	return !f.VirtualFunction || !m.functions.parents[f.Parent] && verbs.VirtualAlone.Watches(f, found)
}

func (d *Device) setMemorable(memorable bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memorable = memorable
}

// memoryIdentity returns by what the device is recognized after a restart. The caller holds d.mu.
func (d *Device) memoryIdentity() memory.Identity {
	return memory.Identity{NodeGUID: cmp.Or(d.found.NodeGUID, d.attr.NodeGUID), PCI: d.found.PCI, Driver: d.found.Driver}
}

// rememberDevice remembers the device if it has been open for openLong. A soft device is remembered for its ports alone: an
// administrator makes it and deletes it. The caller holds d.mu.
func (d *Device) rememberDevice(t *moment) {
	if d.open && d.memorable && t.mono-d.openSince >= int64(openLong) {
		d.cfg.Memory.RememberDevice(d.name, d.memoryIdentity(), !d.found.VirtualFunction && !d.found.Soft)
	}
}

// observePort takes account of the state of a port: it remembers a port that has been active for long enough. It returns a point
// with the present and the expected state of the port. The caller holds d.mu, and calls it after each change of the port's state.
func (d *Device) observePort(p *port, t *moment, wall int64) *measure.Port {
	v := p.view(d.name, t, wall, &d.attr)
	active := v.HasState && v.State == verbs.PortActive && !v.AlwaysActive
	if active {
		p.returned = false
	}
	long := v.HasState && p.link.Observe(v.State, p.attr.Phys, t.mono)
	if long && d.memorable && !v.AlwaysActive {
		rate := 0.0
		if active && v.Known {
			rate = v.Attr.RateGbps
		}
		d.cfg.Memory.RememberPort(d.name, p.port, rate)
	}
	best, remembered := d.cfg.Memory.Port(d.name, p.port)
	least, configured := d.cfg.Configured(d.name, p.port)
	v.ExpectedUp, v.ExpectedReason = expect.Facts{
		ExpectedDown: p.expected, Configured: configured, Remembered: remembered, Returned: p.returned, LinkWaits: p.link.Waits(t.mono),
	}.Up()
	v.RateBestGbps = max(v.RateBestGbps, best)
	v.RateExpectedGbps = expect.Rates{Configured: least, Best: v.RateBestGbps, Compared: p.comparedGbps}.Gbps()
	return v
}

// Forget makes the monitor no longer expect a port, or with port 0 a device and its ports, that Config.Memory has forgotten, until it
// is active or open for a minute again. A device that is gone is no longer reported, unless it is in Config.Expect.
func (m *Monitor) Forget(device string, port int) {
	t := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.devices, func(d *Device) bool { return d.name == device })
	if i < 0 {
		return
	}
	d := m.devices[i]
	d.endMemory(port)
	d.restartMemory(port, &t)
	if _, gone := d.gone(); gone && port == 0 {
		m.forgotten.add(d.leaveBehind(&t))
		m.devices = slices.Delete(m.devices, i, i+1)
	}
}

// endMemory makes a device that was never found one that nobody awaits.
func (d *Device) endMemory(port int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if port == 0 {
		d.remembered = false
	}
	if d.reason == status.ReasonReassigned && !d.seen {
		d.reason = status.ReasonNoDevice
	}
}

// restartMemory makes the time begin again after which the port, or with port 0 the device, is remembered.
func (d *Device) restartMemory(port int, t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if port == 0 {
		d.openSince = t.mono
	}
	for _, p := range d.ports {
		if port != 0 && p.port != port {
			continue
		}
		p.link.Restart()
		p.bestGbps = 0
		if p.answered && p.attr.State == verbs.PortActive {
			p.bestGbps = p.attr.RateGbps
		}
		d.emitPort(p, t.mono, t)
	}
}
