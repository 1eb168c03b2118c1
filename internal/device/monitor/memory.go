package monitor

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// rememberAfter is the time for which a device must have been open without a break to be remembered.
const rememberAfter = time.Minute

// addRemembered adds the devices that Config.Memory has and the configuration still includes. They count as missing until discovery
// finds them.
func (m *Monitor) addRemembered() {
	for _, r := range m.cfg.Memory.Devices() {
		if !r.Missed || !m.cfg.Devices(r.Name) {
			continue
		}
		d := m.ensureDevice(r.Name)
		d.remembered = true
		d.found = verbs.Found{Name: r.Name, Index: -1, NodeGUID: r.NodeGUID, PCI: r.PCI, Driver: r.Driver}
	}
}

// isAwaited reports whether the device is remembered and discovery has not found it since the start. The caller holds d.mu.
func (d *Device) isAwaited() bool { return d.remembered && !d.seen }

// findRenamed looks for remembered devices that have another name since the last boot, and stops awaiting them under the old name. A
// new name that is itself remembered does not count: if a card is missing, the devices after it may each have taken the next lower
// number, and there is still one device too few. The caller holds m.mu.
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
			if f.Name == old.Name || own || !m.shouldMonitor(f) || !m.cfg.isSameDevice(old, f) {
				continue
			}
			d.log.Info("device renamed since the last start", "new_name", f.Name)
			m.cfg.Memory.Rename(old.Name, f.Name)
			d.stopAwaiting(0)
			if !d.expected {
				m.devices = slices.DeleteFunc(m.devices, func(o *Device) bool { return o == d })
			}
			break
		}
	}
}

// awaitedDevice returns the remembered attributes of the device, and whether it is awaited.
func (d *Device) awaitedDevice() (old verbs.Found, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found, d.isAwaited()
}

// shouldRemember reports whether a device is to be remembered: all but virtual and scalable functions whose physical function is
// visible. Pods and virtual machines receive such functions and return them, so that their absence is normal.
func (m *Monitor) shouldRemember(f verbs.Found, found []verbs.Found) bool {
	return !f.VirtualFunction || !m.functions.parents[f.Parent] && verbs.VirtualAlone.Watches(f, found)
}

func (d *Device) setMemorable(memorable bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memorable = memorable
}

// memoryIdentity returns the attributes by which the plugin recognizes the device after a restart. The caller holds d.mu.
func (d *Device) memoryIdentity() memory.Identity {
	return memory.Identity{NodeGUID: cmp.Or(d.found.NodeGUID, d.attr.NodeGUID), PCI: d.found.PCI, Driver: d.found.Driver}
}

// rememberDevice remembers the device if it has been open for rememberAfter. Of a soft device it remembers only the ports: an
// administrator creates and deletes the device. The caller holds d.mu.
func (d *Device) rememberDevice(t *moment) {
	if d.open && d.memorable && t.mono-d.openSince >= int64(rememberAfter) {
		d.cfg.Memory.RememberDevice(d.name, d.memoryIdentity(), !d.found.VirtualFunction && !d.found.Soft)
	}
}

// observePort remembers a port that has been active for long enough, and returns a point with the present and the expected state of
// the port. The caller holds d.mu, and calls observePort after each change of the port's state.
func (d *Device) observePort(p *port, t *moment, wall int64) *measure.Port {
	v := p.makePoint(d.name, t, wall, &d.attr)
	active := v.HasState && v.State == verbs.PortActive && !v.AlwaysActive
	if active {
		p.returned = false
	}
	representor := d.isRepresentor(p)
	long := v.HasState && p.link.Observe(v.State, p.attr.Phys, t.mono)
	if long && d.memorable && !representor && !v.AlwaysActive {
		rate := 0.0
		if active && v.Known {
			rate = v.Attr.RateGbps
		}
		d.cfg.Memory.RememberPort(d.name, p.port, rate)
	}
	best, remembered := d.cfg.Memory.Port(d.name, p.port)
	least, configured := d.cfg.Configured(d.name, p.port)
	v.ExpectedUp, v.ExpectedReason = expect.Facts{
		ExpectedDown: p.expectedDown, Representor: representor, Configured: configured, Remembered: remembered, Returned: p.returned, LinkWaits: p.link.Waits(t.mono),
	}.Up()
	v.RateBestGbps = max(v.RateBestGbps, best)
	v.RateExpectedGbps = expect.Rates{Configured: least, Best: v.RateBestGbps, Compared: p.comparedGbps}.Gbps()
	return v
}

// Forget makes the Monitor stop expecting a port, or with port 0 a device and its ports, that Config.Memory has forgotten. The Monitor
// expects it again once it has been active or open for a minute. A device that is gone is no longer reported, unless it is in
// Config.Expect.
func (m *Monitor) Forget(device string, port int) {
	t := m.clock.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.devices, func(d *Device) bool { return d.name == device })
	if i < 0 {
		return
	}
	d := m.devices[i]
	d.stopAwaiting(port)
	d.restartRemembering(port, &t)
	if _, gone := d.goneSince(); gone && port == 0 {
		m.forgotten.add(d.retire(&t))
		m.devices = slices.Delete(m.devices, i, i+1)
	}
}

// stopAwaiting makes the Monitor no longer await the device if port is 0.
func (d *Device) stopAwaiting(port int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if port == 0 {
		d.remembered = false
	}
	if d.reason == status.ReasonReassigned && !d.seen {
		d.reason = status.ReasonNoDevice
	}
}

// restartRemembering restarts the time after which the port, or with port 0 the device and its ports, is remembered.
func (d *Device) restartRemembering(port int, t *moment) {
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
