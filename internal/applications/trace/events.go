package trace

import (
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// Types is the number of event types that have a count of their own.
const Types = int(verbs.EventDeviceSpeedChange) + 1

// errorTypes has the events that report a failure of an application's object or device. Events of objects come first.
var errorTypes = [...]verbs.EventType{
	verbs.EventCQErr, verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr, verbs.EventSRQErr, verbs.EventWQFatal,
	verbs.EventDeviceFatal,
}

// IsError reports whether an event reports a failure of an application's object or device.
func IsError(t verbs.EventType) bool { return slices.Contains(errorTypes[:], t) }

// ErrorTypes returns the types for which IsError is true.
func ErrorTypes() []verbs.EventType { return slices.Clone(errorTypes[:]) }

// ErrorNames lists the types for which IsError is true for use in a sentence, such as "cq_err, qp_fatal and device_fatal" for the
// conjunction "and".
func ErrorNames(conjunction string) string {
	var names []string
	for _, t := range errorTypes {
		names = append(names, t.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}

// EventTypes returns the event types that are counted. Events of ports are not counted: every process with an open device gets them, and many
// processes never read them.
func EventTypes() []verbs.EventType {
	var types []verbs.EventType
	for _, scope := range []verbs.Scope{verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ} {
		types = append(types, verbs.EventTypes(scope)...)
	}
	return types
}
