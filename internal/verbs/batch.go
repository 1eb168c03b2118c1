package verbs

import "time"

// Options says what to watch on a device, and how.
type Options struct {
	Device        string
	Ports         []int         // empty: all, at most MaxPorts
	StateInterval time.Duration // 0: ports are queried only after events
	Probe         ProbeOptions
}

// MaxPorts is how many ports of one device are watched when none are named.
const MaxPorts = 16

// ProbeOptions is the probe section of the configuration.
type ProbeOptions struct {
	Interval time.Duration // 0: no probes
	Timeout  time.Duration
	Method   string // "auto" or a Method
	Vectors  []int  // [-1]: all
	AckBatch int
	GIDIndex int
	PKeyIdx  int
}

// Batch is what was seen since the last one, in the order seen. A batch
// without items is a sign of life. Its items and what they point to are valid
// until the function that was given the batch returns.
type Batch struct {
	Wall  int64 // unix ns, read together with Mono
	Mono  int64 // CLOCK_MONOTONIC ns
	Items []Item
}

// Item is one thing that was seen; exactly one member is set.
type Item struct {
	Opened  *DeviceAttr // the device is open; the first item of a watch
	Run     *Run
	Reading *Reading
	Round   *RoundItem
	Probe   *ProbeItem
}

// Reading is the answer of one port query. The first one of a port after
// Opened is its baseline: events queued before it come as Runs before it, and
// make no transition.
type Reading struct {
	Port int
	Mono int64 // CLOCK_MONOTONIC ns, before the query
	Took int64 // ns of the query, with what it reads in sysfs
	Attr PortAttr
	Err  string // why there is no answer; "" when there is
}

// RoundItem is one probe round.
type RoundItem struct {
	Port, Vector int
	Method       Method
	Round
}

// ProbeItem says that a probe was made or given up, and why.
type ProbeItem struct {
	Port, Vector int
	Method       Method // MethodNone: there is no probe now
	Reason       string // for a log line
}
