// Package ledger implements the shared memory between a worker and the host process. The worker counts in it: the events
// read and acknowledged per event type and port, the outcomes of rounds per probe, the probes and writes per pair of hosts.
// It records the verbs call that each of its threads is in, and passes details through rings: runs of events, rounds of
// probes and commands.
//
// The host creates a ledger as a memfd and passes it to the worker, together with a doorbell. The counts therefore survive
// a worker that dies with events in flight. If an acknowledgement hangs, the counts show an event that was read and not
// acknowledged. After a crash the ledger names the call.
//
// Each word has one writing thread; readers may read it at any time. The native backend
// writes the ledger from C: internal/device/native/native.h has the same layout, and a
// test compares the two. The simulator writes it through the methods of Ledger.
package ledger
