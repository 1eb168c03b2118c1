package status

// State is the state of the supervision of a program. The measurement rdma_device has it in the field worker_state.
type State string

// The states.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateBackingOff State = "backing_off"
	StateStuck      State = "stuck" // killed, but the kernel does not release it
	StateStopped    State = "stopped"
)

// Status is the state of one supervised program.
type Status struct {
	State    State
	Reason   Reason // why it is not running; ReasonOK otherwise
	Message  string // one line for the log; "" when there is nothing to report
	Restarts uint64 // processes started beyond the first
	Crashes  uint64 // processes that ended without a request after they had opened the device, except by its removal
	PID      int    // 0: none
}
