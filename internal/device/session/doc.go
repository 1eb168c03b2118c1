// Package session watches one open RDMA device: its asynchronous events, the states of its ports, the rounds of its
// probes, and its removal. It works on any verbs.Backend and in any process, and reports everything as verbs.Batches.
// Further tasks on the open device are added as Parts.
package session
