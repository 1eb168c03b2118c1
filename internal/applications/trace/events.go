package trace

import (
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// Types is the number of types of events that are counted by themselves.
const Types = int(verbs.EventDeviceSpeedChange) + 1

// errorTypes are the events that say that something of an application has failed. Those of objects come first.
var errorTypes = [...]verbs.EventType{
	verbs.EventCQErr, verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr, verbs.EventSRQErr, verbs.EventWQFatal,
	verbs.EventDeviceFatal,
}

// IsError reports whether an event says that something of the application has failed.
func IsError(t verbs.EventType) bool { return slices.Contains(errorTypes[:], t) }

// ErrorTypes returns the types for which IsError is true.
func ErrorTypes() []verbs.EventType { return slices.Clone(errorTypes[:]) }

// ErrorNames lists the types for which IsError is true in a sentence, as in "cq_err, qp_fatal and device_fatal" for the conjunction "and".
func ErrorNames(conjunction string) string {
	var names []string
	for _, t := range errorTypes {
		names = append(names, t.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}

// EventTypes returns the types of events that are counted. Those of ports are not: each process with the device open gets them, and many
// never read them.
func EventTypes() []verbs.EventType {
	var types []verbs.EventType
	for _, scope := range []verbs.Scope{verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ} {
		types = append(types, verbs.EventTypes(scope)...)
	}
	return types
}
