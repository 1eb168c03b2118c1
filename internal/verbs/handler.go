package verbs

import (
	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
)

// Handler is told what the worker of one device does. A Supervisor calls it
// from one goroutine, in order: Started, Batch..., Ended for each worker, with
// Status in between. None of them may block.
type Handler interface {
	// Started hands over the ledger of a worker that is about to run. It stays
	// mapped until Ended returns.
	Started(led *ledger.Ledger)
	// Batch is called for each batch of the worker's stream.
	Batch(b Batch)
	// Ended says that the worker has exited, or been given up, so that its
	// ledger has its last values, and why.
	Ended(why status.End)
	// Status is called on every change of Status.
	Status(s status.Status)
}
