package drivers

import (
	"slices"

	"rdma_events/internal/device/verbs"
)

// Known is the source of the facts of a row.
type Known int

// The sources, from the weakest to the best. A row that names tests in Standin is at
// least ByStandin.
const (
	FromSource     Known = iota // read in the driver's source, and not tried
	ByStandin                   // tests run against a stand-in that behaves like the driver
	EmulatedDevice              // tests run on the driver itself, on a real kernel, with a device that QEMU emulates
	InTheLab                    // tests run on the driver itself, on a real kernel, and it needs no device
)

// StateSource is what a driver makes the state of a port of.
type StateSource int

// The sources.
const (
	OfNetDev StateSource = iota // the carrier of the port's network device
	OfDevice                    // what the device, its firmware or the hypervisor says; mlx4 and mlx5 so on InfiniBand only
	OfNone                      // nothing: each port is active
)

// Driver is one row: a driver, or one of its modes if the modes differ.
type Driver struct {
	Name   string   // common name, with its mode: "irdma, iWARP"
	Kernel []string // values of verbs.DeviceAttr.Driver for its devices
	// Transport is the value of verbs.DeviceAttr.Transport if the driver has a row for
	// each; "" for any.
	Transport string
	Devices   string // the hardware that it drives

	Events     string // asynchronous events that it raises
	Probe      string // methods that `auto` takes, in its order
	LinkDowned string // whether there is a count of link drops
	Notes      string // sentences for the document; ""
	// Interruptible is which commands a signal to the calling thread ends, as a sentence with its
	// source in the kernel; "": none, since the driver waits for answers uninterruptibly.
	Interruptible string

	// State is what the driver makes the state of a port of (query_port), and StateFile the kernel file that does, below
	// drivers/infiniband.
	State     StateSource
	StateFile string
	// Disassociates is the first release that was read in which the driver has ib_device_ops.disassociate_ucontext: the kernel then
	// takes a device away from the processes that have it open. The zero Release: none has it. The releases read were 6.1, 6.12
	// and 7.3.
	Disassociates Release

	Known   Known
	Standin []string // tests in internal/device/native with a stand-in that behaves like it
	// Hardware is who ran `rdma-events doctor -hardware` on a device, when, and with which
	// firmware; "": there is no report.
	Hardware string

	// FlushMoves are the hw_counters that the method flush increases.
	FlushMoves []string
	// First is the method that `auto` tries first among those that the driver can do; on
	// RoCE if its ports have a choice of link layers. Never are the methods that the
	// driver cannot do.
	First verbs.Method
	Never []verbs.Method
	// Costs is how many commands to the device each call costs at most; calls that are
	// missing cost none. Ethernet is for ports of that link layer if their costs differ;
	// nil: no difference.
	Costs, Ethernet Costs
	// Files is what a snapshot of a port reads.
	Files Files
}

// Files are the files with counters that a port has in sysfs.
type Files struct {
	// Counters and HWCounters are how many files its directories counters and hw_counters have
	// at most, without the file lifespan; 0: no such directory.
	Counters, HWCounters int
	// Asking is how many times the device is asked, at most, for all hw_counters at once
	// (RDMA_NLDEV_CMD_STAT_GET). Reading their files takes as many within the 10 ms for which the
	// kernel keeps an answer (update_hw_stats of drivers/infiniband/core/sysfs.c), but not with
	// mlx5, where each file asks.
	Asking int
}

// Costs is how many commands to the device each call costs.
type Costs map[Call]int

// Call is a call that is a command to the device with some drivers: the firmware must
// answer it, and does not answer while it hangs.
type Call string

// The calls that the plugin makes while it runs.
const (
	PortQuery  Call = "query_port"       // ibv_query_port
	PortSpeed  Call = "query_port_speed" // ibv_query_port_speed; not asked on InfiniBand
	LinkDowned Call = "link_downed"      // reading that counter in sysfs, or any other file beside it
	CreateAH   Call = "create_ah"
	DestroyAH  Call = "destroy_ah"
	CreateQP   Call = "create_qp"
	ModifyQP   Call = "modify_qp"
	DestroyQP  Call = "destroy_qp"
	PKey       Call = "pkey"       // reading one entry of the P_Key table in sysfs
	HWCounter  Call = "hw_counter" // reading one hw_counter in sysfs
	QueryQP    Call = "query_qp"

	LinkState  Call = "linkstate_get" // asking ethtool for the link of the port's network device
	Statistics Call = "gstats"        // reading that device's statistics, with their number and names
	// QueueStatistics is what Statistics costs more for each queue of the network device.
	QueueStatistics Call = "gstats_queue"
)

// Calls returns all calls, in the order above.
func Calls() []Call {
	return []Call{
		PortQuery, PortSpeed, LinkDowned, CreateAH, DestroyAH, CreateQP, ModifyQP, DestroyQP, PKey, HWCounter, QueryQP,
		LinkState, Statistics, QueueStatistics,
	}
}

// Find returns the row of a device; ok is false for a driver without a row.
func Find(kernel, transport string) (d Driver, ok bool) {
	for _, d := range All() {
		if slices.Contains(d.Kernel, kernel) && (d.Transport == "" || d.Transport == transport) {
			return d, true
		}
	}
	return Driver{}, false
}

// On returns the costs on ports of the given link layer.
func (d Driver) On(layer verbs.LinkLayer) Costs {
	if layer == verbs.LinkEthernet && d.Ethernet != nil {
		return d.Ethernet
	}
	return d.Costs
}

// Of returns how many commands the given calls cost.
func (c Costs) Of(asks Asks) int {
	sum := 0
	for call, times := range asks {
		sum += times * c[call]
	}
	return sum
}
