package drivers

import (
	"slices"

	"rdma_events/internal/device/verbs"
)

// Known tells how well the facts of a row are verified.
type Known int

// The sources, from the weakest to the best. A row that names tests in Standin is at
// least ByStandin.
const (
	FromSource     Known = iota // read in the driver's source, and not tested
	ByStandin                   // tests run against a stand-in that behaves like the driver
	EmulatedDevice              // tests run on the driver itself, on a real kernel, with a device that QEMU emulates
	InTheLab                    // tests run on the driver itself, on a real kernel, and it needs no device
)

// StateSource is the source from which a driver derives the state of a port.
type StateSource int

// The sources.
const (
	OfNetDev StateSource = iota // the carrier of the port's network device
	OfDevice                    // the device, its firmware or the hypervisor; with mlx4 and mlx5 on InfiniBand only
	OfNone                      // none: each port is always active
)

// Driver is one row: a driver, or one of its modes if the modes differ.
type Driver struct {
	Name   string   // common name, with its mode: "irdma, iWARP"
	Kernel []string // values of verbs.DeviceAttr.Driver for its devices
	// Transport is the value of verbs.DeviceAttr.Transport if the driver has a row for
	// each; "" for any.
	Transport string
	Devices   string // the hardware that it drives

	Events     string // asynchronous events that the driver raises
	Probe      string // methods that `auto` tries, in this order
	LinkDowned string // whether the driver counts link drops
	Notes      string // sentences for the document; ""
	// Interruptible names the commands that a signal to the calling thread ends, as a sentence with
	// its source in the kernel; "": none, since the driver waits for answers uninterruptibly.
	Interruptible string

	// State is the source from which the driver derives the state of a port (query_port). StateFile is the kernel file with that code,
	// below drivers/infiniband.
	State     StateSource
	StateFile string
	// Disassociates is the first of the releases 6.1, 6.12 and 7.3 in which the driver has ib_device_ops.disassociate_ucontext. The
	// kernel can then withdraw a device from the processes that have it open. The zero Release: none of them has it.
	Disassociates Release

	Known   Known
	Standin []string // tests in internal/device/native with a stand-in that behaves like the driver
	// Hardware tells who ran `rdma-events doctor -hardware` on a device, when, and with which
	// firmware; "": there is no report.
	Hardware string

	// FlushMoves lists the hw_counters that the method flush increases.
	FlushMoves []string
	// First is the method that `auto` tries first among the methods that the driver supports; for
	// RoCE if its ports have a choice of link layers. Never lists the methods that the driver
	// does not support.
	First verbs.Method
	Never []verbs.Method
	// Costs has the most commands to the device that each call costs; a missing call costs none.
	// Ethernet has the costs on ports of that link layer; nil: the same as Costs.
	Costs, Ethernet Costs
	// Files describes the counters that a snapshot of a port reads.
	Files Files
}

// Files describes the files with counters that a port has in sysfs.
type Files struct {
	// Counters and HWCounters are the largest numbers of files in the directories counters and
	// hw_counters, without the file lifespan; 0: no such directory.
	Counters, HWCounters int
	// HWCounterQueries is the largest number of commands to the device for reading all hw_counters at once
	// (RDMA_NLDEV_CMD_STAT_GET). Reading their files costs as many within the 10 ms for which the
	// kernel keeps an answer (update_hw_stats of drivers/infiniband/core/sysfs.c), except with
	// mlx5, where each file costs a command.
	HWCounterQueries int
}

// Costs has the number of commands to the device that each call costs.
type Costs map[Call]int

// Call is a call that is a command to the device with some drivers: the firmware must
// answer it, and does not answer while it hangs.
type Call string

// The calls that the plugin makes while it runs.
const (
	PortQuery  Call = "query_port"       // ibv_query_port
	PortSpeed  Call = "query_port_speed" // ibv_query_port_speed; not asked on InfiniBand
	LinkDowned Call = "link_downed"      // reading that counter in sysfs, or any other file in its directory
	CreateAH   Call = "create_ah"
	DestroyAH  Call = "destroy_ah"
	CreateQP   Call = "create_qp"
	ModifyQP   Call = "modify_qp"
	DestroyQP  Call = "destroy_qp"
	PKey       Call = "pkey"       // reading one entry of the P_Key table in sysfs
	HWCounter  Call = "hw_counter" // reading one hw_counter in sysfs
	QueryQP    Call = "query_qp"

	LinkState  Call = "linkstate_get" // asking ethtool for the link of the port's network device
	Statistics Call = "gstats"        // reading the statistics of the network device, with their number and names
	// QueueStatistics is the additional cost of Statistics for each queue of the network device.
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

// On returns the costs on ports of a link layer.
func (d Driver) On(layer verbs.LinkLayer) Costs {
	if layer == verbs.LinkEthernet && d.Ethernet != nil {
		return d.Ethernet
	}
	return d.Costs
}

// Of returns how many commands the calls cost.
func (c Costs) Of(asks CallCounts) int {
	sum := 0
	for call, times := range asks {
		sum += times * c[call]
	}
	return sum
}
