package verbs

// The backends that a Request can name.
const (
	BackendVerbs = "verbs"
	BackendSim   = "sim"
)

// Request is the task of a worker.
type Request struct {
	Options Options
	Backend string     // BackendVerbs or BackendSim
	Sim     Simulation // used by BackendSim
}

// Simulation configures the simulator. Package simulated/devices defines the meaning of its members.
type Simulation struct {
	Profile  string
	Scenario string
	Seed     int64
	Epoch    int64 // CLOCK_MONOTONIC ns at which the timeline began; a worker that replaces another continues the timeline
}
