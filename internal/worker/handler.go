package worker

import (
	"rdma_events/internal/ledger"
	"rdma_events/internal/watch"
)

// State is where the supervision of a device stands; it is rdma_device's field
// worker_state.
type State string

// The states.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateBackingOff State = "backing_off"
	StateStuck      State = "stuck" // killed, but the kernel does not let it go
	StateStopped    State = "stopped"
)

// Status is the state of one device's worker.
type Status struct {
	State    State
	Reason   watch.Reason // why it is not running; watch.ReasonOK otherwise
	Message  string       // one line for the log; "" when there is nothing to say
	Restarts uint64       // workers started beyond the first
	Crashes  uint64       // workers that ended unasked after they had opened the device, but for its removal
	PID      int          // 0: none
}

// Handler is told what the worker of one device does. A Supervisor calls it
// from one goroutine, in order: Started, Batch..., Ended for each worker, with
// Status in between. None of them may block.
type Handler interface {
	// Started hands over the ledger of a worker that is about to run. It stays
	// mapped until Ended returns.
	Started(led *ledger.Ledger)
	// Batch is called for each batch of the worker's stream.
	Batch(b watch.Batch)
	// Ended says that the worker has exited, or been given up, so that its
	// ledger has its last values, and why.
	Ended(why watch.Ended)
	// Status is called on every change of Status.
	Status(s Status)
}
