package measure

import (
	"time"

	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// Stat is mean and maximum over the interval just ended, ns. Count 0: there
// was nothing to measure.
type Stat struct {
	Count int64
	Mean  int64
	Max   int64
}

// Percentiles of a window, ns.
type Percentiles struct {
	Count         int64
	P50, P90, P99 int64
}

// Snapshot is everything that is emitted once per interval.
type Snapshot struct {
	Async     []Async
	Ports     []Port
	Probes    []Probe
	Devices   []Device
	Collector Watching
	Totals    HostTotals
}

// HostTotals are sums of counters over all devices that there have been: none of
// them goes back when a device is renamed or forgotten.
type HostTotals struct {
	Flaps             uint64
	MissedTransitions uint64
	LostEvents        uint64
	LostCompletions   uint64
	Errors            uint64
}

// Async is one series of rdma_async: a port's events, or with Port 0 all
// other events of the device.
type Async struct {
	Device    string
	Port      int
	Events    []EventCount // every type of the scope, also those never seen
	Read      uint64
	Acked     uint64
	Unacked   uint64 // read and not yet acknowledged by the running worker
	Released  uint64 // freed unacknowledged by a worker's death
	Hold, Ack Stat
}

// EventCount is the counter of one event type and its rate per second over the
// interval just ended.
type EventCount struct {
	Type  verbs.EventType
	Total uint64
	Rate  float64
}

// Event is one point of rdma_async_event: Count events of one type.
type Event struct {
	Device  string
	Type    verbs.EventType
	Port    int // 0 unless the type's scope is verbs.ScopePort
	Count   uint64
	Total   uint64 // the counter after these
	Time    time.Time
	First   time.Time // of the first of them
	HoldMax int64     // ns; 0 unknown
	AckMax  int64     // ns; 0 unknown
}

// Change is one point of rdma_port_change.
type Change struct {
	Device      string
	Port        int
	From, To    verbs.PortState
	Witness     verbs.Witness
	Lasted      int64 // ns in From; with Merged > 1 of the last transition
	HasLasted   bool  // false for the first change after Start when From has no known beginning
	Transitions uint64
	Time        time.Time
}

// Port is one point of rdma_port. Known is false while the device is not
// open or does not answer: Attr is left out then, and so is whether the port is
// up; the state and the counters stay.
type Port struct {
	Device   string
	Port     int
	Expected bool // true: the port is in expected_down
	Known    bool
	HasState bool            // false until the first answer of a query: State means nothing then
	State    verbs.PortState // the state machine's, not Attr.State
	Attr     verbs.PortAttr

	Transitions       uint64
	Flaps             uint64
	DownNS            int64
	StateAgeNS        int64
	HasStateAge       bool
	MissedTransitions uint64
	PhantomEvents     uint64
	Time              time.Time
}

// Probe is one series of rdma_cq_probe.
type Probe struct {
	Device       string
	Port, Vector int
	Method       verbs.Method
	Counts       ledger.ProbeCounts
	Unacked      uint64
	Released     uint64
	EventsRate   float64
	OK           bool
	HasOK        bool   // a round has ended since the device was opened, and it is open
	Status       string // the last error; "" none yet

	// Of the interval just ended, and over the window.
	Wake, Ack, Hold, Total, Get, Arm, Drain        Stat
	WakeP, AckP, HoldP, TotalP, GetP, ArmP, DrainP Percentiles
	// Cumulative counts of wake per histogram bound, the last one +Inf; nil
	// unless asked for.
	Histogram []uint64
}

// Device is one point of rdma_device.
type Device struct {
	Device   string
	Present  bool
	Open     bool
	Opens    uint64
	Removals uint64
	Fatals   uint64
	Reason   status.Reason
	Worker   status.Status
	Attr     verbs.DeviceAttr // of the last opening; Name "" before the first
	Time     time.Time
}

// Watching is the part of rdma_collector that the monitor knows.
type Watching struct {
	Devices        int
	Workers        int
	WorkerRestarts uint64
	WorkersStuck   int
	Events         uint64
	DeliveryP      Percentiles // from the return of ibv_get_async_event to the monitor's hand-over
	WorkerRSS      uint64      // bytes, all workers together
}

// Sink takes what is emitted when it happens. None of its methods may block;
// they are called concurrently for different devices, in order for one.
type Sink interface {
	Event(Event)
	Change(Change)
	Port(Port)
	Device(Device)
}
