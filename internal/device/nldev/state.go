package nldev

import "strconv"

// State is the state of a queue pair: enum ib_qp_state of include/rdma/ib_verbs.h, which is that of ibv_query_qp(3).
type State uint8

// The states of a queue pair. StateUnknown is that of all other objects, and of a queue pair whose entry has none.
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

// String returns the state as in "rtr", and the number of a state that is not known here, as in "state_9".
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
