package verbs

import (
	"cmp"
	"fmt"
	"time"
)

// Method is the way in which a probe makes its device complete a work request.
type Method int8

// The methods. MethodRCWrite: a zero-length RDMA write of an RC queue pair that is
// connected to itself, on RoCE through the port's default GID unless another is
// configured. MethodUDSend: a datagram of a UD queue pair to its own address, whose
// receive makes the event; on RoCE the probe holds the address only during a round.
// MethodFlush: a fresh queue pair with one posted receive is moved to the error state.
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

// ParseMethod is the inverse of Method.String.
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
// completion was in the queue, so the interrupt or the event path lost it.
// OutcomeLostCompletion: the deadline passed and there was no completion either.
// OutcomeDisturbed: the host was paused or suspended during the round, as a guest is that is
// migrated, so that the round says nothing about the device.
// OutcomeCanceled: Nudge or Close ended the round before it began, or there was no
// address to send from. In the second case the probe is no longer usable, and the
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
	AckBatch  int           // completion events acknowledged together; at least 1
	GIDIndex  int           // -1: the backend chooses
	PKeyIndex int           // -1: the first full-member P_Key
	Trial     bool          // the rounds count only if Probe.Keep is called
}

// Pace is the timing of the rounds of one call: the first is after Pause, the others
// are every Interval as long as they begin within For of the first. If Interval or For
// is 0, there is one round. After a round that takes longer than Interval, the rounds
// that it missed are skipped.
type Pace struct {
	Pause, Interval, For time.Duration
}

// Missed returns the part of a delay in which rounds every interval were due. A probe
// skips those rounds, so that its rounds keep to a grid.
func Missed(delay, interval time.Duration) time.Duration {
	if delay <= 0 || interval <= 0 {
		return 0
	}
	return delay.Truncate(interval)
}

// Round is the result of one probe round. Durations are ns of CLOCK_MONOTONIC, and 0 if
// the round did not come that far.
type Round struct {
	Outcome Outcome
	Status  string // completion status, or verb with its errno, of a failure; "" after success, Nudge or Close
	Start   int64  // CLOCK_MONOTONIC ns, before the post
	Wake    int64  // to the return of ibv_get_cq_event
	Get     int64  // ibv_get_cq_event alone
	Arm     int64  // ibv_req_notify_cq
	Drain   int64  // ibv_poll_cq until empty, before the arm and after it
	Hold    int64  // return of get to return of ack; 0 when not acknowledged in this round
	Ack     int64  // ibv_ack_cq_events; 0 when not acknowledged in this round
	Total   int64  // to the ack's return, or to the end of the drain when acks are batched
}
