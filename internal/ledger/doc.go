// Package ledger is the shared memory in which a worker counts: per event type
// and port what was read and what was acknowledged, per probe how its rounds
// ended, and per thread the verbs call it is in. The host makes it as a memfd
// and hands it to the worker, so the counts outlive a worker that dies with
// events in flight, an acknowledgement that hangs shows as read without
// acknowledged, and a crash report can name the call.
//
// Each word has one writing thread; readers may look at any time. The native
// backend writes it from C (internal/verbs/native/native.h has the same layout, and a
// test holds the two together), the simulator through Events and Probe.
package ledger
