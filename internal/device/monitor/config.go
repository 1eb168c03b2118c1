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
	// Emit gets each point that is emitted when it happens, and those of rdma_port,
	// rdma_command and rdma_device when they change, and owns it from then on. It must not block. It is
	// called concurrently for different devices, and in order for one device.
	Emit func(measure.Point)
	// Now reads CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME, in ns. It is
	// called concurrently.
	Now func() (wall, mono, boot int64)

	Devices          func(name string) bool             // devices to monitor; nil: all
	VirtualFunctions verbs.VirtualFunctions             // which virtual and scalable functions to monitor
	Ports            func(device string, port int) bool // ports to count; nil: the first verbs.MaxPorts
	Expect           []string                           // devices that are reported even if never seen
	Groups           []Group                            // devices of which there must be so many
	ExpectedDown     func(device string, port int) bool // ports that are down by design; nil: none

	// Configured reports whether the configuration wants a port to be active, and with which least rate, 0 for any; nil: it wants none.
	Configured func(device string, port int) (rateGbps float64, ok bool)
	// Memory has which devices and ports this host has had, and gets to know more; nil: one that ends with the process.
	Memory *memory.Memory
	// Role returns the role of a port by the configuration, "" if it has none there. Nil: none has.
	Role func(device string, port int) string
	// CarriesDefaultRoute reports whether a default route of the host goes over a network device. It must not ask a driver. Nil: none does.
	CarriesDefaultRoute func(netdev string) bool

	// Released reports whether a device is released now, as `rdma-events release` does: no worker opens it. What it answers for a
	// device that is known takes effect with the next Review, or report of the Discovery. It must not block. Nil: none is.
	Released func(f verbs.Found) bool

	CommandStuck time.Duration // a command that lasts longer is stuck; 0: none is

	Evidence bool // the workers take snapshots, and what they explain is emitted

	// Subscribers get each Update of a device, in this order. They are called concurrently for different devices, and in order
	// for one device. They must not block, call the Monitor, or keep or change what an Update points to.
	Subscribers []func(Update)

	Window    time.Duration // time that percentiles cover
	Histogram bool
	Stages    bool // collect the stages of a round, too: get, arm, drain

	// LibrariesChanged reports whether libraries were installed or removed on the host since its
	// last call. It must not block. Nil: that is not known.
	LibrariesChanged func() bool

	// Function returns the present state of a PCI function; nil: no function is known.
	Function func(address string) verbs.PCIFunction
	// PCILink returns the link of the PCI function at an address now, the zero PCILink if it is not known. Nil: none is known.
	PCILink func(address string) verbs.PCILink
	// Legs returns how many legs the bond of a network device has, and how many of them are up; ok is false if there is no
	// bond. It is called concurrently and must not block. Nil: no bond is known.
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
	if c.Ports == nil {
		c.Ports = func(_ string, port int) bool { return port <= verbs.MaxPorts }
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
