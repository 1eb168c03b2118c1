package monitor

import (
	"context"
	"log/slog"
	"time"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// Supervisor keeps one worker running for one device. Run blocks until ctx ends. While it
// runs the Supervisor calls its Device, never twice at a time. Wake reports that the
// device is present again; it neither blocks nor calls the Device.
type Supervisor interface {
	Run(ctx context.Context) error
	Wake()
}

// Config is the configuration of a Monitor. Discovery, NewSupervisor, Emit, Now and
// Window must be set.
type Config struct {
	Discovery verbs.Discovery
	// NewSupervisor returns a new Supervisor for a device. It must not call d.
	NewSupervisor func(name string, d *Device) Supervisor
	// Emit receives the points of events, and those of rdma_port, rdma_command and rdma_device when these
	// change. It owns the point. It must not block. It is called concurrently for different devices, and in
	// order for one device.
	Emit func(measure.Point)
	// Now reads CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME, in ns. It is
	// called concurrently.
	Now func() (wall, mono, boot int64)
	// Repeat calls f once in each interval until ctx ends, and then returns. If it is nil, the intervals follow the host's clock. A
	// simulation passes a function whose intervals follow the clock of Now.
	Repeat func(ctx context.Context, interval time.Duration, f func())

	Devices          func(name string) bool // devices to monitor; nil: all
	VirtualFunctions verbs.VirtualFunctions // which virtual and scalable functions to monitor
	// Ports reports whether to count a port; uplink is verbs.DeviceAttr.Uplink. Nil: the first verbs.MaxPorts and the uplink.
	Ports        func(device string, port, uplink int) bool
	Expect       []string                           // devices that are reported even if never seen
	Groups       []Group                            // sets of devices of which the host must have a number
	ExpectedDown func(device string, port int) bool // ports that are down by design; nil: none

	// Configured reports whether the configuration requires a port to be active, and its least rate, 0 for any; nil: no port.
	Configured func(device string, port int) (rateGbps float64, ok bool)
	// Memory remembers which devices and ports this host has had; nil: a Memory that ends with the process.
	Memory *memory.Memory
	// Role returns the configured role of a port, "" if it has none. Nil: no port has one.
	Role func(device string, port int) string
	// CarriesDefaultRoute reports whether a default route of the host uses a network device. It must not query a driver. Nil: none does.
	CarriesDefaultRoute func(netdev string) bool

	// Released reports whether `rdma-events release` has released a device, so that no worker may open it. A change for a known
	// device takes effect with the next Review or report of the Discovery. It must not block. Nil: no device is released.
	Released func(f verbs.Found) bool

	CommandStuck time.Duration // time after which a command counts as stuck; 0: never

	Evidence bool // workers take snapshots at triggers, and the Monitor emits the evidence

	// Subscribers get each Update of a device, in this order. They are called concurrently for different devices, and in order
	// for one device. They must not block, call the Monitor, or keep or change what an Update points to.
	Subscribers []func(Update)

	Window    time.Duration // time that percentiles cover
	Histogram bool
	Stages    bool // also collect the stages of a round: get, arm, drain

	// LibrariesChanged reports whether libraries were installed or removed on the host since its
	// last call. It must not block. Nil: unknown.
	LibrariesChanged func() bool

	// Function returns the present state of a PCI function; nil: no function is known.
	Function func(address string) verbs.PCIFunction
	// PCILink returns the present link of the PCI function at an address, the zero PCILink if it is unknown. Nil: all are unknown.
	PCILink func(address string) verbs.PCILink
	// Legs returns how many legs the bond of a network device has, and how many of them are up; ok is false without a bond.
	// It is called concurrently and must not block. Nil: no bond is known.
	Legs func(netdev string) (legs, up int, ok bool)
	// RSS returns the resident bytes of a process, 0 when it is gone; nil: read
	// from /proc.
	RSS func(pid int) uint64
	Log *slog.Logger // nil: no log
}

func (c Config) withDefaults() Config {
	if c.Devices == nil {
		c.Devices = func(string) bool { return true }
	}
	if c.Repeat == nil {
		c.Repeat = repeatByHostClock
	}
	if c.Ports == nil {
		c.Ports = func(_ string, port, uplink int) bool { return verbs.IsWatchedByDefault(port, uplink) }
	}
	if c.ExpectedDown == nil {
		c.ExpectedDown = func(string, int) bool { return false }
	}
	if c.Configured == nil {
		c.Configured = func(string, int) (rateGbps float64, ok bool) { return 0, false }
	}
	if c.Memory == nil {
		c.Memory = memory.New(time.Now)
	}
	if c.Role == nil {
		c.Role = func(string, int) string { return "" }
	}
	if c.CarriesDefaultRoute == nil {
		c.CarriesDefaultRoute = func(string) bool { return false }
	}
	if c.Released == nil {
		c.Released = func(verbs.Found) bool { return false }
	}
	if c.LibrariesChanged == nil {
		c.LibrariesChanged = func() bool { return false }
	}
	if c.Function == nil {
		c.Function = func(string) verbs.PCIFunction { return verbs.PCIFunction{} }
	}
	if c.PCILink == nil {
		c.PCILink = func(string) verbs.PCILink { return verbs.PCILink{} }
	}
	if c.Legs == nil {
		c.Legs = func(string) (legs, up int, ok bool) { return 0, 0, false }
	}
	if c.RSS == nil {
		c.RSS = func(int) uint64 { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
