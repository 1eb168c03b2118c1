package verbs

import "strconv"

// EventType is a value of enum ibv_event_type (infiniband/verbs.h), which
// equals the kernel's enum ib_event_type. Newer kernels may send values that
// have no name here. They are counted and acknowledged like the others.
type EventType int32

// The 21 event types of rdma-core 65 and Linux 7.3.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
	EventDeviceSpeedChange
	eventTypes
)

// Scope is the kind of object that an event is about. It decides which member
// of the event's union is valid (ibv_get_async_event(3)).
type Scope int8

// The scopes. An event type without a name has ScopeUnknown. libibverbs fills in
// port_num for such an event. If it is an object event of a newer kernel, that
// value is a truncated pointer, so it is not used.
const (
	ScopeUnknown Scope = iota
	ScopePort
	ScopeDevice
	ScopeCQ
	ScopeQP
	ScopeSRQ
	ScopeWQ
)

var scopeNames = [...]string{"unknown", "port", "device", "cq", "qp", "srq", "wq"}

// String returns the scope as it is written in tags: "port", "device", "cq",
// "qp", "srq", "wq" or "unknown".
func (s Scope) String() string {
	if s < 0 || int(s) >= len(scopeNames) {
		return scopeNames[ScopeUnknown]
	}
	return scopeNames[s]
}

var eventTable = [eventTypes]struct {
	name  string
	scope Scope
}{
	EventCQErr:             {"cq_err", ScopeCQ},
	EventQPFatal:           {"qp_fatal", ScopeQP},
	EventQPReqErr:          {"qp_req_err", ScopeQP},
	EventQPAccessErr:       {"qp_access_err", ScopeQP},
	EventCommEst:           {"comm_est", ScopeQP},
	EventSQDrained:         {"sq_drained", ScopeQP},
	EventPathMig:           {"path_mig", ScopeQP},
	EventPathMigErr:        {"path_mig_err", ScopeQP},
	EventDeviceFatal:       {"device_fatal", ScopeDevice},
	EventPortActive:        {"port_active", ScopePort},
	EventPortErr:           {"port_err", ScopePort},
	EventLIDChange:         {"lid_change", ScopePort},
	EventPKeyChange:        {"pkey_change", ScopePort},
	EventSMChange:          {"sm_change", ScopePort},
	EventSRQErr:            {"srq_err", ScopeSRQ},
	EventSRQLimitReached:   {"srq_limit_reached", ScopeSRQ},
	EventQPLastWQEReached:  {"qp_last_wqe_reached", ScopeQP},
	EventClientReregister:  {"client_reregister", ScopePort},
	EventGIDChange:         {"gid_change", ScopePort},
	EventWQFatal:           {"wq_fatal", ScopeWQ},
	EventDeviceSpeedChange: {"device_speed_change", ScopeDevice},
}

// Known reports whether the type has a name.
func (t EventType) Known() bool { return t >= 0 && t < eventTypes }

// String returns the name of the verbs constant in lower snake case without its
// prefix, as in "port_err", or "unknown_<number>".
func (t EventType) String() string {
	if !t.Known() {
		return "unknown_" + strconv.Itoa(int(t))
	}
	return eventTable[t].name
}

// Scope returns the scope of events of this type.
func (t EventType) Scope() Scope {
	if !t.Known() {
		return ScopeUnknown
	}
	return eventTable[t].scope
}

// EventTypes returns all named types of one scope, in numeric order.
func EventTypes(scope Scope) []EventType {
	var types []EventType
	for t := EventType(0); t < eventTypes; t++ {
		if eventTable[t].scope == scope {
			types = append(types, t)
		}
	}
	return types
}

// ParseEventType returns the type that EventType.String writes as name, unknown_<number> included.
func ParseEventType(name string) (EventType, bool) {
	for t := EventType(0); t < eventTypes; t++ {
		if eventTable[t].name == name {
			return t, true
		}
	}
	const prefix = "unknown_"
	if len(name) > len(prefix) && name[:len(prefix)] == prefix {
		if n, err := strconv.ParseInt(name[len(prefix):], 10, 32); err == nil {
			return EventType(n), true
		}
	}
	return 0, false
}

// Run is a sequence of consecutive events of the same type on the same port.
// All of them have been acknowledged when a Run is returned.
type Run struct {
	Type  EventType
	Port  int    // 1-based; 0 unless the type's scope is ScopePort
	Count uint64 // at least 1

	// First and Last are the times when ibv_get_async_event returned the first
	// and the last event of the run, in ns of CLOCK_MONOTONIC.
	First, Last int64

	// HoldSum and HoldMax are the sum and the maximum, over the events of the
	// run, of the time from the return of ibv_get_async_event to the return of
	// ibv_ack_async_event. AckSum and AckMax measure ibv_ack_async_event alone.
	// All are in ns.
	HoldSum, HoldMax int64
	AckSum, AckMax   int64

	// Unlisted marks events that did not fit into the ring of the ledger, so that the host has only their count.
	// First and Last are then the time when the host read the count, and the durations are 0.
	Unlisted bool
}
