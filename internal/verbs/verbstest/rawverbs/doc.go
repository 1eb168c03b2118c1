// Package rawverbs makes verbs objects on the context of an open device, for tests in the lab guest: events of
// an object reach only the context that owns it, and the worker itself makes neither shared receive queues nor
// queue pairs that fail. It is behind the build tag guest and, unlike package verbs, linked with libibverbs.
package rawverbs
