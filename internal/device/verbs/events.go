package verbs

import "strconv"

// EventType is a number of enum ibv_event_type (infiniband/verbs.h), which is
// the same as the kernel's enum ib_event_type. A number without a name here is
// legal: newer kernels send such numbers, and they are counted and acknowledged
// like the others.
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

// The scopes. ScopeUnknown is the scope of a number without a name. For such a
// number libibverbs fills in port_num. For an object event of a newer kernel
// that is a truncated pointer, so the value is not used.
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

// Known reports whether the number has a name.
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

// ParseEventType is the inverse of EventType.String, unknown_<number> included.
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

// Run is a sequence of equal consecutive events: the same type on the same
// port. All of them have been acknowledged when a Run is returned.
type Run struct {
	Type  EventType
	Port  int    // 1-based; 0 unless the type's scope is ScopePort
	Count uint64 // at least 1

	// First and Last are CLOCK_MONOTONIC in ns, at the return of
	// ibv_get_async_event of the first and of the last event of the run.
	First, Last int64

	// HoldSum and HoldMax are the sum and the maximum of the times from the
	// return of ibv_get_async_event to the return of ibv_ack_async_event, over
	// the events of the run. AckSum and AckMax are those of ibv_ack_async_event
	// alone. All are in ns.
	HoldSum, HoldMax int64
	AckSum, AckMax   int64

	// Unlisted marks events that the host knows by their number alone, since the ring of the ledger had no space for them.
	// First and Last are then when it heard of them, and there are no durations.
	Unlisted bool
}
