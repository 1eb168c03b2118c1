package memory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rdma_events/internal/sys/wake"
)

const (
	// MaxDevices is the largest number of remembered devices. If there are more, the memory keeps those learned last.
	MaxDevices = 256
	// maxPorts is the largest number of remembered ports of a device. The plugin watches no more.
	maxPorts = 16
)

// Identity identifies a device independently of its name. Unknown fields are "".
type Identity struct {
	NodeGUID string `json:"node_guid,omitempty"`
	PCI      string `json:"pci_address,omitempty"`
	Driver   string `json:"driver,omitempty"` // of its PCI function
}

// Device is a remembered device.
type Device struct {
	Name string `json:"device"`
	Identity
	// Missed reports that the host should have the device, so that its absence is a problem. It is false for a virtual function,
	// which an administrator may add and remove; only the ports of a virtual function are remembered.
	Missed  bool      `json:"missed"`
	Ports   []Port    `json:"ports,omitempty"` // ports that have been active, by number
	Learned time.Time `json:"learned"`         // time of the last change to this entry
}

// Port is a port that has been active for a minute or more.
type Port struct {
	Port     int     `json:"port"`
	RateGbps float64 `json:"rate_gbps,omitempty"` // the highest rate seen while the port was active
}

func (d *Device) clone() *Device {
	c := *d
	c.Ports = slices.Clone(d.Ports)
	return &c
}

func (d *Device) equal(o *Device) bool {
	return d.Identity == o.Identity && d.Missed == o.Missed && slices.Equal(d.Ports, o.Ports)
}

// findPort returns the index of a port in d.Ports, or where it would be inserted.
func (d *Device) findPort(number int) (at int, ok bool) {
	return slices.BinarySearchFunc(d.Ports, number, func(p Port, n int) int { return p.Port - n })
}

// Memory holds the remembered devices of a host. Its methods may be called concurrently. Only Sync and Run block.
type Memory struct {
	now  func() time.Time
	file *file // nil: the memory ends with the process

	mu      sync.Mutex
	devices map[string]*Device
	changed map[string]bool // devices that differ from the file, by name
	wake    wake.Signal     // holds a token when Run has to call Sync
}

// New returns an empty Memory without a file.
func New(now func() time.Time) *Memory {
	return &Memory{now: now, devices: map[string]*Device{}, changed: map[string]bool{}, wake: wake.New()}
}

// IsPersistent reports whether the memory has a file, and so outlives the process.
func (m *Memory) IsPersistent() bool { return m.file != nil }

// Devices returns the remembered devices, ordered by name.
func (m *Memory) Devices() []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Device
	for _, name := range slices.Sorted(maps.Keys(m.devices)) {
		all = append(all, *m.devices[name].clone())
	}
	return all
}

// Port reports whether a port is remembered, and returns its highest rate; 0 if the rate is unknown.
func (m *Memory) Port(device string, number int) (rateGbps float64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	if d == nil {
		return 0, false
	}
	at, ok := d.findPort(number)
	if !ok {
		return 0, false
	}
	return d.Ports[at].RateGbps, true
}

// RememberDevice remembers a device. If the name belonged to another card until now, the two cards have exchanged their names if the memory
// knows the present one, too. Else that card is new, and the memory keeps the name's ports and clears their rates.
func (m *Memory) RememberDevice(name string, id Identity, missed bool) {
	m.exchangeNames(name, id)
	m.changeDevice(name, func(d *Device) {
		if isOtherCard(d.Identity, id) {
			for i := range d.Ports {
				d.Ports[i].RateGbps = 0
			}
		}
		d.Identity, d.Missed = id, missed
	})
}

// exchangeNames exchanges the entries of two names if name belongs to the card that had the other name until now, as after a reset or a
// change of cards: the kernel numbers its devices in the order in which they are registered.
func (m *Memory) exchangeNames(name string, id Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.devices[name]
	if own == nil || !isOtherCard(own.Identity, id) {
		return
	}
	for other, d := range m.devices {
		if d.NodeGUID != id.NodeGUID {
			continue
		}
		own, d = own.clone(), d.clone()
		own.Name, d.Name = other, name
		m.devices[other], m.devices[name] = own, d
		m.markChanged(other)
		m.markChanged(name)
		return
	}
}

// UpdateIdentity updates the identity of a remembered device whose name now belongs to another card, as RememberDevice does. It
// does nothing for a device that is not remembered.
func (m *Memory) UpdateIdentity(name string, id Identity) {
	m.mu.Lock()
	d := m.devices[name]
	m.mu.Unlock()
	if d != nil && isOtherCard(d.Identity, id) {
		m.RememberDevice(name, id, d.Missed)
	}
}

// isOtherCard reports whether two identities have different node GUIDs.
func isOtherCard(a, b Identity) bool {
	return a.NodeGUID != "" && b.NodeGUID != "" && a.NodeGUID != b.NodeGUID
}

// RememberPort remembers a port, and its current rate if that is the highest so far.
func (m *Memory) RememberPort(device string, number int, rateGbps float64) {
	m.changeDevice(device, func(d *Device) {
		at, ok := d.findPort(number)
		switch {
		case ok:
			d.Ports[at].RateGbps = max(d.Ports[at].RateGbps, rateGbps)
		case len(d.Ports) < maxPorts:
			d.Ports = slices.Insert(d.Ports, at, Port{number, rateGbps})
		}
	})
}

// changeDevice applies a change to a device, and adds the device if it is not remembered.
func (m *Memory) changeDevice(name string, change func(*Device)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := &Device{Name: name}
	old := m.devices[name]
	if old != nil {
		d = old.clone()
	}
	change(d)
	if old != nil && d.equal(old) {
		return
	}
	d.Learned = m.now().Round(time.Second).UTC()
	m.devices[name] = d
	m.dropOldest()
	m.markChanged(name)
}

// markChanged records that a device differs from the file, and requests a Sync. The caller holds m.mu.
func (m *Memory) markChanged(name string) {
	if m.file == nil {
		return
	}
	m.changed[name] = true
	m.RequestSync()
}

// dropOldest removes the devices that were learned first while there are more than MaxDevices. The caller holds m.mu.
func (m *Memory) dropOldest() {
	for len(m.devices) > MaxDevices {
		oldest := slices.MinFunc(slices.Collect(maps.Values(m.devices)), func(a, b *Device) int {
			return cmp.Or(a.Learned.Compare(b.Learned), strings.Compare(a.Name, b.Name))
		})
		delete(m.devices, oldest.Name)
		m.markChanged(oldest.Name)
	}
}

// Forget removes a port from the memory, or with port 0 the device and its ports. It reports whether it was remembered.
func (m *Memory) Forget(device string, port int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	if d == nil {
		return false
	}
	if port == 0 {
		delete(m.devices, device)
		m.markChanged(device)
		return true
	}
	at, ok := d.findPort(port)
	if ok {
		d = d.clone()
		d.Ports = slices.Delete(d.Ports, at, at+1)
		m.devices[device] = d
		m.markChanged(device)
	}
	return ok
}

// Rename moves a remembered device to its new name, and replaces the entry that had that name.
func (m *Memory) Rename(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[from]
	if d == nil {
		return
	}
	d = d.clone()
	d.Name = to
	delete(m.devices, from)
	m.devices[to] = d
	m.markChanged(from)
	m.markChanged(to)
}
