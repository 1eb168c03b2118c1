package status

// State is the state of a supervised program. It is the field worker_state of the measurement rdma_device.
type State string

// States.
const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateBackingOff State = "backing_off"
	StateStuck      State = "stuck" // killed, but has not ended: in most cases the kernel holds it
	StateStopped    State = "stopped"
)

// Status is the state of one supervised program.
type Status struct {
	State    State
	Reason   Reason // why it does not run; ReasonOK while it runs
	Message  string // one line for the log; "" when there is nothing to report
	Restarts uint64 // processes started beyond the first
	Crashes  uint64 // processes that ended without a request after they had opened the device, except by its removal
	PID      int    // 0: none
}
