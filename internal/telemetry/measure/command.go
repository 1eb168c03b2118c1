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
	Calls  uint64 // calls that have ended, including failed calls
	Errors uint64
	Status string // of the last call; "": none has ended
	BusyNS int64  // duration of the call in progress so far; 0: none is in progress
	Stuck  bool

	Took  aggregate.Stat        // of the last interval
	TookP aggregate.Percentiles // of the window
	At    time.Time
}

// CommandOK is the Status of a successful call.
const CommandOK = "ok"

// addTo adds the call to the sums of its host.
func (c *Command) addTo(h *Host) { h.Stuck += boolToInt(c.Stuck) }

// Key implements Point.
func (c *Command) Key() Key {
	return Key{Measurement: commandTable.Name, Device: c.Device, Subject: c.Call.String(), Port: c.Port}
}

// Time implements Point.
func (c *Command) Time() time.Time { return c.At }

// Merge implements Point. The later point replaces this one.
func (c *Command) Merge(later Point) { *c = *later.(*Command) }

// Clone implements Point.
func (c *Command) Clone() Point { return clone(c) }

// Events implements Point.
func (*Command) Events() uint64 { return 0 }

// Lines implements Point.
func (c *Command) Lines(add func(Line)) { add(commandTable.line(c)) }

var commandTable = table[Command]{
	Metric: Metric{
		Name:    "rdma_command",
		Emitted: everyInterval + ", and when stuck changes",
		Description: "Calls that the firmware of the device has to answer: one reading of a hw_counter per port every " +
			"evidence.command_interval, and the port queries of drivers that ask the firmware for them. Not with drivers that " +
			"answer from the host's memory. While the firmware of a device hangs, events are still counted, and the driver still " +
			"answers queries from what it knows.",
	},
	tags: []tag[Command]{
		requiredTag("device", "name of the RDMA device", func(v *Command) string { return v.Device }),
		requiredTag("port", "number of the port, from 1", func(v *Command) string { return strconv.Itoa(v.Port) }),
		requiredTag("call", "hw_counters; query_qp (of the probe's queue pair), on ports without hw_counters; or query_port, including "+
			"the sysfs reads that complete it",
			func(v *Command) string { return v.Call.String() }),
		managementTag(func(v *Command) string { return v.Role }),
	},
	fields: slices.Concat([]field[Command]{
		counter("calls", "calls that have ended", func(v *Command) uint64 { return v.Calls }),
		counter("errors", "calls that have failed", func(v *Command) uint64 { return v.Errors }),
		optionalText("status", "result of the last call: ok, or the name of the errno", func(v *Command) string { return v.Status }),
		requiredInt("busy_ns", "ns", "duration of the call in progress so far; 0 if none is in progress",
			func(v *Command) int64 { return v.BusyNS }),
		boolInt("stuck", "1 once a call has lasted for evidence.command_stuck, or three calls in a row have ended in ETIMEDOUT, ETIME, "+
			"EIO, ENOLINK or ENODEV; 0 again after a call has succeeded",
			func(v *Command) bool { return v.Stuck }),
	},
		statFields("took", "duration of a call", func(v *Command) aggregate.Stat { return v.Took }),
		percentileFields("took", "duration of a call", func(v *Command) aggregate.Percentiles { return v.TookP })),
}
