// Package verbs defines the types for RDMA devices: device attributes, asynchronous events, port states and the rounds of
// completion-queue probes. It also defines the interface of backends, which open devices, and of discovery, which finds
// them.
//
// A Backend opens Devices. A Device creates Probes, and closes them before it closes itself. ReadEvents and Round block;
// Close wakes them.
package verbs
