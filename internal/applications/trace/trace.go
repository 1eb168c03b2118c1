package trace

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// Request is the host's request to a tracer.
type Request struct {
	Backend   string           // verbs.BackendVerbs or verbs.BackendSim
	Sim       verbs.Simulation // used by BackendSim
	HangAfter time.Duration    // a thread hangs if it waits for acknowledgements longer than this
}

// Source collects data about applications. Next must not be called concurrently. Close may be called from any goroutine, and ends a waiting Next.
type Source interface {
	// Attached describes what the source observes. The description never changes.
	Attached() Attached
	// Next waits until the next second has passed, and returns the changes since the previous Update. After Close it returns the last changes
	// once, and then ErrClosed. After the driver core was unloaded, it does the same with ErrUnloaded. It continues without a device. An
	// error of the source ends the source. An error of ctx does not, and loses no data.
	Next(ctx context.Context) (*Update, error)
	// Close ends the source. It does not block.
	Close() error
}

// A Source that cannot start or continue returns an error that wraps one of these.
var (
	ErrClosed      = errors.New("the source is closed")
	ErrNoDevice    = errors.New("there is no RDMA device")      // and the driver core is not loaded
	ErrPermission  = errors.New("the privilege is missing")     // the wrapping error names the privilege
	ErrUnsupported = errors.New("this kernel cannot be traced") // the wrapping error has the cause
	ErrUnloaded    = errors.New("the driver core was unloaded") // which has detached all programs
)

// Attached describes what a source observes, and the time it took to start.
type Attached struct {
	Hooks   string        // the method of attachment: "kprobe", "fentry" or "sim"
	Missing []string      // functions that this kernel lacks or does not allow to be probed; their data is missing
	Load    time.Duration // time from the start to the attachment
}

// The limits of an Update. A Source keeps data above a limit for the next Update. It keeps at most MaxEvents events and counts further ones
// as Lost. The host ignores data above a limit, because it does not trust the tracer.
const (
	MaxApps   = 4096
	MaxEvents = 4096
	MaxHangs  = 1024
)

// Update has the changes of a second. Its counts start when the source starts.
type Update struct {
	Mono int64 // CLOCK_MONOTONIC ns
	// Apps has the processes with changes.
	Apps []App
	// Events has the events in the order in which they were queued. An event is in the same Update as its count in Apps, or in the next one. The
	// counts include all events; details of some may be missing (Lost). Events of App.Found have no details either. Events of a process
	// without an App of its own belong to the App without a name.
	Events []Event
	// Hangs has the threads that hang now. A hang is in every Update until it ends.
	Hangs []Hang

	Lost uint64 // events and waits that are missing in Events and Hangs
	// Full counts the processes, queues and reads for which the source had no space. Processes and queues without space are counted without a name.
	// Events read by reads without space remain Unread, and become Skipped or Discarded later.
	Full      uint64
	Processes int // processes with counts now
}

// App has the counts of one process on one device, for the events of EventTypes.
//
// A process appears when its queue is first used. Every event is finally read, discarded or skipped: the sum of Queued equals the sum of Read,
// Discarded, Skipped and Unread.
type App struct {
	Device  string           // name of the device when the process first appeared
	Process identity.Process // PID 0: all processes without space of their own

	Queued    [Types]uint64 // events that the kernel added to the process' queue
	Found     [Types]uint64 // events of Queued that were in the queue when the source first saw it
	Read      uint64        // events that the process has read
	Discarded uint64        // events discarded with their object or with the queue's descriptor
	Skipped   uint64        // events that the kernel could not queue because it had no memory

	Unread       uint64 // events in the queue now
	UnreadErrors uint64 // errors (IsError) in the queue now
	UnreadSince  int64  // last time at which the queue was empty or read, CLOCK_MONOTONIC ns; 0: it is empty

	DestroyedUnacked uint64 // objects that were destroyed with an unacknowledged event

	Delays   uint64 // events whose delay from the queue to the end of read(2) was measured
	DelaySum int64  // ns
	DelayMax int64  // maximum since the previous Update, ns

	Ended bool // no changes follow: the process has exited or closed the device. If it opens the device again, its counts start at 0
}

// Event is an event that was queued for a process.
type Event struct {
	Device  string
	Process identity.Process
	Type    verbs.EventType // its Scope is the kind of object
	Number  uint32          // number of the object as in `rdma resource show`: lqpn, cqn, srqn; 0: the event is of a device
	At      int64           // CLOCK_MONOTONIC ns
}

// Hang is a thread that hangs while it destroys an object, because acknowledgements are missing.
type Hang struct {
	Device  string
	Process identity.Process
	Thread  int
	Object  verbs.Scope
	Number  uint32 // as in Event
	Since   int64  // CLOCK_MONOTONIC ns
	Missing uint32 // number of missing acknowledgements
	Proof   Proof
}

// Proof tells how certain a Hang is.
type Proof string

// The proofs.
const (
	ProofAsleep  Proof = "asleep"  // the thread has not run since the wait began
	ProofWaiting Proof = "waiting" // the thread has run and waits again: it received some of the acknowledgements
)
