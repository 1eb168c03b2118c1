package verbs

import "time"

// Options describes how a device is watched: its ports, queries and probes.
type Options struct {
	Device        string
	Ports         []int         // empty: all, at most MaxPorts
	StateInterval time.Duration // 0: ports are queried only after events
	GIDInterval   time.Duration // 0: GID tables are read only after events
	// CommandInterval is the interval between calls that the device's firmware has to answer.
	// 0: no such calls, and no Command is sent.
	CommandInterval time.Duration
	CommandStuck    time.Duration // a call that lasts longer is stuck
	// SnapshotInterval is the interval between the base readings of counters, from which later
	// snapshots compute their deltas. 0: no snapshots at all.
	SnapshotInterval time.Duration
	Ethtool          Ethtool
	Objects          bool // list the device's objects and their holders
	EveryReading     bool // send the host every Reading, even if nothing has changed
	Probe            ProbeOptions
	Fabric           FabricOptions
}

// MaxPorts is the largest number of ports of one device that are watched by
// default.
const MaxPorts = 16

// ProbeOptions is the probe section of the configuration.
type ProbeOptions struct {
	Interval  time.Duration // 0: no probes
	Timeout   time.Duration
	Method    Method // MethodAuto: the session chooses it
	Vectors   []int  // [-1]: all completion vectors
	AckBatch  int
	GIDIndex  int
	PKeyIndex int
}

// Batch holds the items observed since the previous Batch, in order. A batch
// without items is a heartbeat. The items and the values that they point to are
// valid until the function that receives the batch returns.
type Batch struct {
	Wall  int64 // unix ns, read together with Mono
	Mono  int64 // CLOCK_MONOTONIC ns
	Items []Item
}

// Item is one observation. Exactly one member besides After is set.
type Item struct {
	// After is the number of runs in the ring of the ledger when the item was created. These runs precede the item.
	After uint64

	Opened   *DeviceAttr // the device is open; the first item of a watch
	Run      *Run        // passed through the ring of the ledger, not through the stream
	Reading  *Reading
	Round    *RoundItem // passed through a ring, too
	Probe    *ProbeItem
	GIDs     *GIDTable // a table that differs from the previous one
	Command  *Command
	Snapshot *Snapshot
	Objects  *Objects
	// FabricPort says how peers reach a port, or why they cannot now. FabricFacts belong to the last FabricPort before them.
	FabricPort  *FabricPort
	FabricFacts *FabricFacts
}

// Reading is the answer to one port query. The first Reading of a port after
// Opened is its baseline. Events that were queued earlier come as Runs before
// the baseline and cause no transition.
type Reading struct {
	Port int
	Mono int64 // CLOCK_MONOTONIC ns, before the query
	Took int64 // ns of the query, reads of sysfs included
	Attr PortAttr
	Err  string // why the query failed; "" after success
	// Refused names the reads of the port that the firmware refuses (Refusals.Text); "": none.
	Refused string
	// Restricted is set if the firmware refused the query because the function is restricted (IsRestriction).
	Restricted bool
	// RateOnly marks a query made because of device_speed_change. Its answer must not change the port state: the event of
	// a state change may not have arrived yet.
	RateOnly bool
}

// RoundItem is one probe round.
type RoundItem struct {
	ProbeKey
	Round
}

// ProbeItem reports that a probe was created or given up.
type ProbeItem struct {
	ProbeKey        // MethodNone: the vector has no probe now
	Reason   string // for a log line
}
