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
	// MaxDevices is how many devices are remembered; of more, the ones that were learned last.
	MaxDevices = 256
	// maxPorts is how many ports of a device are remembered. The plugin watches no more.
	maxPorts = 16
)

// Identity recognizes a device under another name. What is unknown is "".
type Identity struct {
	NodeGUID string `json:"node_guid,omitempty"`
	PCI      string `json:"pci_address,omitempty"`
	Driver   string `json:"driver,omitempty"` // of its PCI function
}

// Device is a device that the host remembers.
type Device struct {
	Name string `json:"device"`
	Identity
	// Missed: the host should have the device, and without it the device is missing. It is not set for a virtual function, which
	// whoever runs the host gives and takes; only its ports are remembered.
	Missed  bool      `json:"missed"`
	Ports   []Port    `json:"ports,omitempty"` // that have been active, by number
	Learned time.Time `json:"learned"`         // when this was learned, or changed last
}

// Port is a port that has been active for a minute or more.
type Port struct {
	Port     int     `json:"port"`
	RateGbps float64 `json:"rate_gbps,omitempty"` // the greatest rate of the active port
}

func (d *Device) clone() *Device {
	c := *d
	c.Ports = slices.Clone(d.Ports)
	return &c
}

func (d *Device) equal(o *Device) bool {
	return d.Identity == o.Identity && d.Missed == o.Missed && slices.Equal(d.Ports, o.Ports)
}

func (d *Device) port(number int) (at int, ok bool) {
	return slices.BinarySearchFunc(d.Ports, number, func(p Port, n int) int { return p.Port - n })
}

// Memory has what a host remembers. Its methods may be called concurrently, and none but Sync and Run blocks.
type Memory struct {
	now  func() time.Time
	file *file // nil: what it has is lost with the process

	mu      sync.Mutex
	devices map[string]*Device
	changed map[string]bool // devices that differ from the file, by name
	wake    wake.Signal     // holds a token when Run has to look at the file
}

// New returns a Memory that knows nothing and has no file.
func New(now func() time.Time) *Memory {
	return &Memory{now: now, devices: map[string]*Device{}, changed: map[string]bool{}, wake: wake.New()}
}

// Kept reports whether what is remembered outlives the process.
func (m *Memory) Kept() bool { return m.file != nil }

// Devices returns the devices that are remembered, by name.
func (m *Memory) Devices() []Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Device
	for _, name := range slices.Sorted(maps.Keys(m.devices)) {
		all = append(all, *m.devices[name].clone())
	}
	return all
}

// Port returns whether a port is remembered, and the greatest rate of it, 0 if that is unknown.
func (m *Memory) Port(device string, number int) (rateGbps float64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	if d == nil {
		return 0, false
	}
	at, ok := d.port(number)
	if !ok {
		return 0, false
	}
	return d.Ports[at].RateGbps, true
}

// RememberDevice remembers a device. If the name stood for another card until now, its ports keep their place in the memory and
// lose their rates.
func (m *Memory) RememberDevice(name string, id Identity, missed bool) {
	m.changeDevice(name, func(d *Device) {
		if isOther(d.Identity, id) {
			for i := range d.Ports {
				d.Ports[i].RateGbps = 0
			}
		}
		d.Identity, d.Missed = id, missed
	})
}

// Recognize notes that a remembered device is there, as RememberDevice does; one that is not remembered stays so.
func (m *Memory) Recognize(name string, id Identity) {
	m.mu.Lock()
	d := m.devices[name]
	m.mu.Unlock()
	if d != nil && isOther(d.Identity, id) {
		m.RememberDevice(name, id, d.Missed)
	}
}

// isOther reports whether two identities are those of different cards.
func isOther(a, b Identity) bool {
	return a.NodeGUID != "" && b.NodeGUID != "" && a.NodeGUID != b.NodeGUID
}

// RememberPort remembers a port, and the rate that it has now.
func (m *Memory) RememberPort(device string, number int, rateGbps float64) {
	m.changeDevice(device, func(d *Device) {
		at, ok := d.port(number)
		switch {
		case ok:
			d.Ports[at].RateGbps = max(d.Ports[at].RateGbps, rateGbps)
		case len(d.Ports) < maxPorts:
			d.Ports = slices.Insert(d.Ports, at, Port{number, rateGbps})
		}
	})
}

// changeDevice applies a change to a device, which it adds if it is not there.
func (m *Memory) changeDevice(name string, how func(*Device)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := &Device{Name: name}
	old := m.devices[name]
	if old != nil {
		d = old.clone()
	}
	how(d)
	if old != nil && d.equal(old) {
		return
	}
	d.Learned = m.now().Round(time.Second).UTC()
	m.devices[name] = d
	m.limit()
	m.touch(name)
}

// touch notes that a device differs from the file. The caller holds m.mu.
func (m *Memory) touch(name string) {
	if m.file == nil {
		return
	}
	m.changed[name] = true
	m.Look()
}

// limit drops the devices that were learned first, if there are too many. The caller holds m.mu.
func (m *Memory) limit() {
	for len(m.devices) > MaxDevices {
		oldest := slices.MinFunc(slices.Collect(maps.Values(m.devices)), func(a, b *Device) int {
			return cmp.Or(a.Learned.Compare(b.Learned), strings.Compare(a.Name, b.Name))
		})
		delete(m.devices, oldest.Name)
		m.touch(oldest.Name)
	}
}

// Forget forgets a port, or with port 0 the device and its ports. It reports whether it was remembered.
func (m *Memory) Forget(device string, port int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	if d == nil {
		return false
	}
	if port == 0 {
		delete(m.devices, device)
		m.touch(device)
		return true
	}
	at, ok := d.port(port)
	if ok {
		d = d.clone()
		d.Ports = slices.Delete(d.Ports, at, at+1)
		m.devices[device] = d
		m.touch(device)
	}
	return ok
}

// Rename remembers a device under its new name, instead of what was remembered of that name.
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
	m.touch(from)
	m.touch(to)
}
