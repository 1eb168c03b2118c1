// Package session watches one open RDMA device: its asynchronous events, the states of its ports, the rounds of its
// probes, and its removal. It works on any verbs.Backend and in any process, and reports everything as verbs.Batches.
// What else is to be done with the open device is a Part.
package session
