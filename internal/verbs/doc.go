// Package verbs has the words for RDMA devices: what they are, their asynchronous events, the states of their ports, the
// rounds of completion-queue probes, and the interfaces of what opens and finds them.
//
// A Backend opens Devices; a Device makes Probes and closes them before itself. ReadEvents and Round block and are woken
// by Close.
package verbs
