package verbs

import "time"

// Options are the ports, queries and probes of a device that is watched.
type Options struct {
	Device        string
	Ports         []int         // empty: all, at most MaxPorts
	StateInterval time.Duration // 0: ports are queried only after events
	GIDInterval   time.Duration // 0: GID tables are read only after events
	// CommandInterval is how often a call is made for which the device's firmware has to
	// answer; 0: never, and no Command is sent.
	CommandInterval time.Duration
	CommandStuck    time.Duration // a call that lasts longer is stuck
	// SnapshotInterval is how often counters are read, as the base of those read after a
	// trigger; 0: no snapshot is ever taken.
	SnapshotInterval time.Duration
	Ethtool          Ethtool
	Objects          bool // who holds objects of the device is looked at
	EveryReading     bool // the host gets also readings of ports that tell it nothing new
	Probe            ProbeOptions
	Fabric           FabricOptions
}

// MaxPorts is the number of ports of one device that are watched if none are
// named.
const MaxPorts = 16

// PortNumbers returns the ports of a device with all ports that are watched: the named
// ones, or if none are named the first MaxPorts.
func PortNumbers(all int, named []int) []int {
	if len(named) > 0 {
		return named
	}
	var numbers []int
	for n := 1; n <= min(all, MaxPorts); n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// ProbeOptions is the probe section of the configuration.
type ProbeOptions struct {
	Interval  time.Duration // 0: no probes
	Timeout   time.Duration
	Method    Method // MethodAuto: the session chooses
	Vectors   []int  // [-1]: all
	AckBatch  int
	GIDIndex  int
	PKeyIndex int
}

// Batch holds the items since the previous Batch, in the order in which they
// were seen. A batch without items is a heartbeat. The items and the values
// that they point to are valid until the function that was given the batch
// returns.
type Batch struct {
	Wall  int64 // unix ns, read together with Mono
	Mono  int64 // CLOCK_MONOTONIC ns
	Items []Item
}

// Item is one observation; exactly one member is set, and After.
type Item struct {
	// After is the number of runs that were in the ring of the ledger when the item was made: these come before it.
	After uint64

	Opened   *DeviceAttr // the device is open; the first item of a watch
	Run      *Run        // it comes in the ring of the ledger, not in the stream
	Reading  *Reading
	Round    *RoundItem // likewise
	Probe    *ProbeItem
	GIDs     *GIDTable // a table that differs from the one before it
	Command  *Command
	Snapshot *Snapshot
	Objects  *Objects
	// FabricPort says how peers reach a port, or that they cannot now. FabricFacts are of the one before them.
	FabricPort  *FabricPort
	FabricFacts *FabricFacts
}

// Reading is the answer of one port query. The first Reading of a port after
// Opened is its baseline: events that were queued before it come as Runs before
// it, and make no transition.
type Reading struct {
	Port int
	Mono int64 // CLOCK_MONOTONIC ns, before the query
	Took int64 // ns of the query, reads of sysfs included
	Attr PortAttr
	Err  string // the reason if there is no answer, else ""
	// Refused names the reads of the port that the firmware refuses (Refusals.Text); "": none.
	Refused string
	// RateOnly marks a query made because of device_speed_change. It says nothing about the state of the port: the event of
	// a change may still be on its way.
	RateOnly bool
}

// RoundItem is one probe round.
type RoundItem struct {
	ProbeKey
	Round
}

// ProbeItem reports that a probe was made or given up, and the reason.
type ProbeItem struct {
	ProbeKey        // MethodNone: there is no probe now
	Reason   string // for a log line
}
