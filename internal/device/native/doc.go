// Package native is the backend for libibverbs, which it opens at run time. All C types of the worker are in this
// package.
//
// In libibverbs the calls that destroy a completion queue or a queue pair block until every event that was read has
// been acknowledged. So native_read acknowledges each asynchronous event in the C call that reads it. A probe
// acknowledges its completion events in batches, and the last ones before it destroys its queue.
package native
