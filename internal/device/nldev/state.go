package nldev

import "strconv"

// State is the state of a queue pair: enum ib_qp_state of include/rdma/ib_verbs.h, with the same values as in ibv_query_qp(3).
type State uint8

// The states of a queue pair. Other objects, and queue pairs whose entry has no state, have StateUnknown.
const (
	Reset State = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Error
	StateUnknown State = 255
)

// String returns the name of the state, as in "rtr", and "state_9" for an unknown state with number 9.
func (s State) String() string {
	switch s {
	case Reset:
		return "reset"
	case Init:
		return "init"
	case RTR:
		return "rtr"
	case RTS:
		return "rts"
	case SQD:
		return "sqd"
	case SQE:
		return "sqe"
	case Error:
		return "error"
	case StateUnknown:
		return "unknown"
	}
	return "state_" + strconv.Itoa(int(s))
}
