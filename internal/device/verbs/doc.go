// Package verbs has the types for RDMA devices: their attributes, their asynchronous events, the states of their ports,
// the rounds of completion-queue probes, and the interfaces of backends, which open devices, and of discovery, which
// finds them.
//
// A Backend opens Devices. A Device makes Probes and closes them before it closes itself. ReadEvents and Round block;
// Close wakes them.
package verbs
