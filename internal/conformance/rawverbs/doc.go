// Package rawverbs creates verbs objects on the context of an open device, for tests in the lab guest. Tests need
// them because events of an object reach only the context that owns it, and the worker itself creates neither
// shared receive queues nor queue pairs that fail. The package needs the build tag guest and, unlike package
// verbs, is linked with libibverbs.
package rawverbs
