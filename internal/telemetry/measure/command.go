package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
)

// Command is a point of rdma_command.
type Command struct {
	Device string
	Port   int
	Call   verbs.CommandCall
	Role   string // verbs.RoleManagement if the port has this role, else ""
	Calls  uint64 // that ended, failures included
	Errors uint64
	Status string // of the last one; "": none has ended
	BusyNS int64  // how long the one under way has lasted; 0: there is none
	Stuck  bool

	Took  aggregate.Stat        // of the interval just ended
	TookP aggregate.Percentiles // of the window
	At    time.Time
}

// CommandOK is the Status of a success.
const CommandOK = "ok"

// addTo adds the call to the sums of its host.
func (c *Command) addTo(h *Host) { h.Stuck += bit(c.Stuck) }

// Key implements Point.
func (c *Command) Key() Key {
	return Key{Measurement: commands.Name, Device: c.Device, Of: c.Call.String(), Port: c.Port}
}

// Time implements Point.
func (c *Command) Time() time.Time { return c.At }

// Merge implements Point: the later one replaces this.
func (c *Command) Merge(later Point) { *c = *later.(*Command) }

// Clone implements Point.
func (c *Command) Clone() Point { return clone(c) }

// Events implements Point.
func (*Command) Events() uint64 { return 0 }

// Lines implements Point.
func (c *Command) Lines(add func(Line)) { add(commands.line(c)) }

var commands = table[Command]{
	Metric: Metric{
		Name:    "rdma_command",
		Emitted: everyInterval + ", and when stuck changes",
		Description: "Calls that the firmware of the device has to answer: one reading of a hw_counter for each port every " +
			"evidence.command_interval, and the queries of the port where they are commands with its driver. Not with drivers that " +
			"answer from the host's memory. A device whose firmware hangs goes on to count events and to answer what its driver knows.",
	},
	tags: []tag[Command]{
		newTag("device", "name of the RDMA device", func(v *Command) string { return v.Device }),
		newTag("port", "number of the port, from 1", func(v *Command) string { return strconv.Itoa(v.Port) }),
		newTag("call", "hw_counters; query_qp where a port has none, of the probe's queue pair; or query_port, with the reads of sysfs that complete it",
			func(v *Command) string { return v.Call.String() }),
		managementTag(func(v *Command) string { return v.Role }),
	},
	fields: slices.Concat([]field[Command]{
		counter("calls", "calls that ended", func(v *Command) uint64 { return v.Calls }),
		counter("errors", "of these, calls that failed", func(v *Command) uint64 { return v.Errors }),
		text("status", "ok, or the name of the errno, of the last call", func(v *Command) string { return v.Status }),
		integer("busy_ns", "ns", "how long the call under way has lasted; 0 when there is none",
			func(v *Command) int64 { return v.BusyNS }),
		yesNo("stuck", "1 from when a call has lasted for evidence.command_stuck, or three in a row ended in ETIMEDOUT, ETIME, "+
			"EIO, ENOLINK or ENODEV, until one succeeds",
			func(v *Command) bool { return v.Stuck }),
	},
		stat("took", "call to return", func(v *Command) aggregate.Stat { return v.Took }),
		percentiles("took", "call to return", func(v *Command) aggregate.Percentiles { return v.TookP })),
}
