// Package ledger is the shared memory in which a worker counts: per event type and port
// the events read and acknowledged, per probe how its rounds ended, per pair of hosts the
// probes and writes, and per thread the verbs call it is in. It also has rings in which a worker leaves the details: runs of
// events, rounds of probes and commands. The host creates it as a memfd and passes it to the worker, with a doorbell. So the
// counts outlive a worker that dies with events in flight, an acknowledgement that hangs
// shows as an event read and not acknowledged, and a crash report can name the call.
//
// Each word has one writing thread; readers may read it at any time. The native backend
// writes the ledger from C: internal/device/native/native.h has the same layout, and a
// test checks that both are equal. The simulator writes it through the methods of Ledger.
package ledger
