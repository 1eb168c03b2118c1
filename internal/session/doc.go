// Package session watches one open RDMA device: its asynchronous events, the states of its ports, the rounds of its
// probes, its probes to and from other hosts, and its removal. It works on any verbs.Backend and in any process, reports
// everything as verbs.Batches, and carries out the orders of the host for the Fabrics of its ports.
package session
