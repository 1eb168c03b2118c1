package trace

import (
	"context"
	"errors"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
)

// Request is what a tracer is asked for.
type Request struct {
	Backend   string           // verbs.BackendVerbs or verbs.BackendSim
	Sim       verbs.Simulation // used by BackendSim
	HangAfter time.Duration    // a thread that has waited for acknowledgements for so long hangs
}

// Source finds out what applications experience. Next is for one goroutine; Close may be called by any other, and ends
// a Next that waits.
type Source interface {
	// Attached returns what the source sees. It does not change.
	Attached() Attached
	// Next waits until the next second is over, and returns what has changed since the Snapshot before. After Close it
	// returns the last changes once, and then ErrClosed; likewise ErrUnloaded. It goes
	// on without a device. The errors of the source end it. That of ctx does not, and nothing is lost by it.
	Next(ctx context.Context) (*Snapshot, error)
	// Close ends the source. It does not block.
	Close() error
}

// A Source that cannot begin, or go on, returns one of these wrapped.
var (
	ErrClosed      = errors.New("the source is closed")
	ErrNoDevice    = errors.New("there is no RDMA device")      // and no driver core
	ErrPermission  = errors.New("the privilege is missing")     // the text names it
	ErrUnsupported = errors.New("this kernel cannot be traced") // the text says why
	ErrUnloaded    = errors.New("the driver core was unloaded") // and with it all that was attached
)

// Attached is what a source sees, and what it took to begin.
type Attached struct {
	Hooks   string        // how it is attached: "kprobe" or "fentry", "sim"
	Missing []string      // the functions that this kernel lacks or does not let be probed; what they would show is not seen
	Load    time.Duration // from the start to the attachment
}

// A Snapshot has no more than these. A Source keeps what is above them for the next Snapshot, of events as many as one
// Snapshot has: the rest is Lost. A host does not take what is above them, since it trusts no tracer to end.
const (
	MaxApps   = 4096
	MaxEvents = 4096
	MaxHangs  = 1024
)

// Snapshot is what has changed in a second. The counts in it are those since the source began.
type Snapshot struct {
	Mono int64 // CLOCK_MONOTONIC ns
	// Apps are those of which something has changed.
	Apps []App
	// Events are in the order in which they were queued. An event comes with its count in Apps, or in the Snapshot after
	// that. Some may be missing (Lost); the counts have them. So it is with those of App.Found. Those of a process that has
	// no App are in the App without a name.
	Events []Event
	// Hangs are the threads that hang now. A hang is in each Snapshot for as long as it lasts.
	Hangs []Hang

	Lost uint64 // events and waits that did not come in Events and Hangs
	// Full are the processes and queues for which there was no place, and which are counted without a name; and reads for which
	// there was none: what they have read stays Unread, and is Skipped or Discarded later.
	Full      uint64
	Processes int // that are counted now
}

// App is what one process has had of one device, of the events of EventTypes.
//
// A process is seen first when something happens to its queue. Each event is read, discarded or skipped in the end: the sum
// of Queued is that of Read, Discarded, Skipped and Unread.
type App struct {
	Device  string           // its name when the process was first seen
	Process identity.Process // PID 0: what found no place, without a name

	Queued    [Types]uint64 // events for which the kernel called the process' queue
	Found     [Types]uint64 // of these, those that were in the queue when the source first saw it
	Read      uint64        // by the process
	Discarded uint64        // gone with their object or with the queue's descriptor
	Skipped   uint64        // the kernel had no memory for them

	Unread       uint64 // now in the queue
	UnreadErrors uint64 // of which are errors (IsError)
	UnreadSince  int64  // CLOCK_MONOTONIC ns of the last moment when the queue was empty or read; 0: it is empty

	DestroyedUnacked uint64 // objects that were destroyed while an event of theirs was not acknowledged

	Delays   uint64 // events whose way from the queue to the end of read(2) was timed
	DelaySum int64  // ns
	DelayMax int64  // ns, of those since the Snapshot before

	Ended bool // nothing more will come of it: the process is gone, or has closed the device. One that opens it again begins at 0
}

// Event is an event that was queued for a process.
type Event struct {
	Device  string
	Process identity.Process
	Type    verbs.EventType // its Scope is the kind of object
	Number  uint32          // of the object, as `rdma resource show` has it: lqpn, cqn, srqn; 0: of a device
	At      int64           // CLOCK_MONOTONIC ns
}

// Hang is a thread that waits in the destruction of an object for acknowledgements that are missing.
type Hang struct {
	Device  string
	Process identity.Process
	Thread  int
	Object  verbs.Scope
	Number  uint32 // as in Event
	Since   int64  // CLOCK_MONOTONIC ns
	Missing uint32 // acknowledgements
	Proof   Proof
}

// Proof is how sure a Hang is.
type Proof string

// The proofs.
const (
	ProofAsleep  Proof = "asleep"  // the thread has not run since
	ProofWaiting Proof = "waiting" // it has run, and waits again: some acknowledgements came
)
