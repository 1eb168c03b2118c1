// Package native implements the backend for libibverbs, which it loads at run time. All C types of the worker are in
// this package.
//
// The calls of libibverbs that destroy a completion queue or a queue pair block until every event that was read has
// been acknowledged. native_read therefore acknowledges each asynchronous event in the C call that reads it. A probe
// acknowledges its completion events in batches, and the last batch before it destroys its queue.
package native
