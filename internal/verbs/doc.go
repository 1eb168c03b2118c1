// Package verbs is the border to RDMA devices: asynchronous events, port
// queries and completion-queue probes.
//
// The types and the Backend interface are plain Go and build without cgo. The
// native backend (Native, linux with cgo) opens libibverbs at run time and
// keeps every C type inside this package; package sim is the second backend,
// and package verbstest holds both to one behaviour.
//
// The object tree: a Backend opens Devices; a Device makes Probes. A Device
// closes its Probes before itself. ReadEvents and Round block and are woken by
// Close; in libibverbs the destroy calls of a CQ or QP block until every event
// that was read has been acknowledged, so this package acknowledges in the same
// C call that reads.
package verbs
