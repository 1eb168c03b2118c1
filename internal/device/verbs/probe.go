package verbs

import (
	"cmp"
	"fmt"
	"time"
)

// Method is the method by which a probe makes its device complete a work request.
type Method int8

// The methods. MethodRCWrite: an RC queue pair that is connected to itself makes a
// zero-length RDMA write; on RoCE it uses the port's default GID unless another one is
// configured. MethodUDSend: a UD queue pair sends a datagram to itself, and the receive
// raises the event; on RoCE the probe holds its address only during a round.
// MethodFlush: a new queue pair with one posted receive is moved to the error state,
// which flushes the receive.
const (
	MethodAuto Method = iota - 1
	MethodNone
	MethodRCWrite
	MethodUDSend
	MethodFlush
)

var methodNames = [...]string{"none", "rc_write", "ud_send", "flush"}

// String returns "auto", "none", "rc_write", "ud_send" or "flush".
func (m Method) String() string {
	if m == MethodAuto {
		return "auto"
	}
	if m < 0 || int(m) >= len(methodNames) {
		return fmt.Sprintf("unknown_%d", int8(m))
	}
	return methodNames[m]
}

// ParseMethod returns the method that Method.String writes as name.
func ParseMethod(name string) (Method, bool) {
	if name == MethodAuto.String() {
		return MethodAuto, true
	}
	for i, n := range methodNames {
		if n == name {
			return Method(i), true
		}
	}
	return MethodNone, false
}

// ProbeKey identifies a probe of a device.
type ProbeKey struct {
	Port   int // from 1
	Vector int // completion vector, 0 to DeviceAttr.Vectors-1
	Method Method
}

// Compare orders keys by port, completion vector and method, as cmp.Compare does.
func (k ProbeKey) Compare(o ProbeKey) int {
	return cmp.Or(cmp.Compare(k.Port, o.Port), cmp.Compare(k.Vector, o.Vector), cmp.Compare(k.Method, o.Method))
}

// Outcome is the result of a round. Every round has exactly one.
type Outcome int8

// The outcomes. OutcomeLostEvent: the deadline passed without an event although the
// completion was in the queue, so the interrupt or the event path lost the event.
// OutcomeLostCompletion: the deadline passed without an event and without a completion.
// OutcomeDisturbed: the host was paused or suspended during the round, as a guest is during
// a migration, so that the round says nothing about the device.
// OutcomeCanceled: Nudge or Close ended the round before it began, or there was no
// address to send from. Without an address the probe is no longer usable, and the
// status has the reason. A canceled round is not counted.
const (
	OutcomeSuccess Outcome = iota
	OutcomeError
	OutcomeLostEvent
	OutcomeLostCompletion
	OutcomeDisturbed
	OutcomeCanceled
)

var outcomeNames = [...]string{"success", "error", "lost_event", "lost_completion", "disturbed", "canceled"}

// String returns the outcome in lower snake case.
func (o Outcome) String() string {
	if o < 0 || int(o) >= len(outcomeNames) {
		return fmt.Sprintf("unknown_%d", int8(o))
	}
	return outcomeNames[o]
}

// ProbeConfig is the configuration of one probe.
type ProbeConfig struct {
	ProbeKey
	Timeout   time.Duration // a round's deadline
	AckBatch  int           // number of completion events acknowledged together; at least 1
	GIDIndex  int           // -1: the backend chooses
	PKeyIndex int           // -1: the first full-member P_Key
	Trial     bool          // rounds are counted only if Probe.Keep is called
}

// Pace is the timing of the rounds of one call. The first round begins after Pause, the
// others follow every Interval as long as they begin within For of the first. If Interval
// or For is 0, there is one round. If a round takes longer than Interval, the rounds that
// were due meanwhile are skipped.
type Pace struct {
	Pause, Interval, For time.Duration
}

// MissedIntervals returns the whole intervals of a delay, as a duration. A probe skips the
// rounds that were due in it, so that its rounds stay on a grid.
func MissedIntervals(delay, interval time.Duration) time.Duration {
	if delay <= 0 || interval <= 0 {
		return 0
	}
	return delay.Truncate(interval)
}

// Round is the result of one probe round. Durations are in ns of CLOCK_MONOTONIC, and 0 if
// the round did not get that far.
type Round struct {
	Outcome Outcome
	Status  string // completion status of a failure, or the verb with its errno; "" after success, Nudge or Close
	Start   int64  // CLOCK_MONOTONIC ns, before the post
	Wake    int64  // from Start to the return of ibv_get_cq_event
	Get     int64  // ibv_get_cq_event alone
	Arm     int64  // ibv_req_notify_cq
	Drain   int64  // ibv_poll_cq until empty, before and after the arm
	Hold    int64  // from the return of ibv_get_cq_event to the return of ibv_ack_cq_events; 0 if not acknowledged in this round
	Ack     int64  // ibv_ack_cq_events; 0 if not acknowledged in this round
	Total   int64  // from Start to the return of ibv_ack_cq_events, or to the end of the drain if acknowledgements are batched
}
