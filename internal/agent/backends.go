package agent

import (
	"path/filepath"
	"slices"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/simulated/devices"
	"rdma_events/internal/simulated/peers"
	"rdma_events/internal/sys/clock"
)

// backendRow is one value of the option backend, as the host uses it. The rows of the worker need cgo, and are in its program.
type backendRow struct {
	Name string // the value of the option
	// Discover returns the discovery of the backend's devices. warn is called with each
	// problem that delays it; the error is that of the request.
	Discover func(r verbs.Request, warn func(error)) (verbs.Discovery, error)
	// Process returns the process of a thread that a worker has named; false: it is not there, or
	// not visible. It may be called concurrently. The error is that of the request.
	Process func(verbs.Request) (func(thread int) (identity.Process, bool), error)
	// Reads returns the files, besides libraries, that a worker reads for a request.
	Reads func(verbs.Request) []string
	// Network returns what reaches the host processes of other hosts, where the backend simulates
	// them too. Nil: they are reached over TCP. The error is that of the request.
	Network func(verbs.Request) (exchange.Network, error)
}

// backendRows returns all backends.
func backendRows() []backendRow {
	return []backendRow{
		{verbs.BackendVerbs, discoverVerbs, processOfHost, readsNothing, nil},
		{verbs.BackendSim, discoverSim, simulatedProcess, readsScenario, simulatedNetwork},
	}
}

// BackendNames returns the values of the option backend.
func BackendNames() []string {
	var names []string
	for _, row := range backendRows() {
		names = append(names, row.Name)
	}
	return names
}

// findBackend returns the backend of a name.
func findBackend(name string) (backendRow, bool) {
	i := slices.IndexFunc(backendRows(), func(r backendRow) bool { return r.Name == name })
	if i < 0 {
		return backendRow{}, false
	}
	return backendRows()[i], true
}

func discoverVerbs(_ verbs.Request, warn func(error)) (verbs.Discovery, error) {
	return hotplug.New(hotplug.Config{Warn: warn}), nil
}

func readsNothing(verbs.Request) []string { return nil }

func processOfHost(verbs.Request) (func(thread int) (identity.Process, bool), error) {
	return identity.NewReader("/proc").Process, nil
}

// loadWorld loads the simulation that a request describes.
func loadWorld(r verbs.Request) (*devices.World, error) {
	return devices.Load(devices.Options{Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch})
}

func discoverSim(r verbs.Request, _ func(error)) (verbs.Discovery, error) {
	world, err := loadWorld(r)
	if err != nil {
		return nil, err
	}
	return hotplug.NewSimulated(world, clock.Monotonic), nil
}

func simulatedProcess(r verbs.Request) (func(thread int) (identity.Process, bool), error) {
	world, err := loadWorld(r)
	return func(thread int) (identity.Process, bool) {
		p, ok := world.Process(thread, clock.Monotonic())
		return p.Identity(), ok
	}, err
}

func simulatedNetwork(r verbs.Request) (exchange.Network, error) {
	world, err := loadWorld(r)
	if err != nil {
		return nil, err
	}
	return peers.New(world), nil
}

// readsScenario returns the file of the scenario. A scenario without a path is built in.
func readsScenario(r verbs.Request) []string {
	if !filepath.IsAbs(r.Sim.Scenario) {
		return nil
	}
	return []string{r.Sim.Scenario}
}
