// Package native is the backend over libibverbs, which it opens at run time. Every C type of the worker lives here.
//
// In libibverbs the calls that destroy a completion queue or a queue pair block until every event that was read has been
// acknowledged, so what reads an event acknowledges it in the same C call.
package native
