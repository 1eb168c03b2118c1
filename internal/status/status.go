package status

// State is where the supervision of a program stands; rdma_device has it in the field worker_state.
type State string

// The states.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateBackingOff State = "backing_off"
	StateStuck      State = "stuck" // killed, but the kernel does not let it go
	StateStopped    State = "stopped"
)

// Status is the state of one supervised program.
type Status struct {
	State    State
	Reason   Reason // why it is not running; ReasonOK otherwise
	Message  string // one line for the log; "" when there is nothing to say
	Restarts uint64 // processes started beyond the first
	Crashes  uint64 // processes that ended unasked after they had opened the device, but for its removal
	PID      int    // 0: none
}
