package verbs

// The backends that a Request can name.
const (
	BackendVerbs = "verbs"
	BackendSim   = "sim"
)

// Request says what a worker is to do.
type Request struct {
	Options Options
	Backend string     // BackendVerbs or BackendSim
	Sim     Simulation // used by BackendSim
}

// Simulation is what the simulator needs to know; package sim gives it meaning.
type Simulation struct {
	Profile  string
	Scenario string
	Seed     int64
	Epoch    int64 // CLOCK_MONOTONIC ns at which the timeline began; a replaced worker goes on in it
}
