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

// backendRow describes one value of the option backend as the host process uses it. The functions that need cgo are in
// the worker program.
type backendRow struct {
	Name string // value of the option
	// NewDiscovery returns the discovery of the backend's devices. The discovery calls warn with each problem that
	// delays it. The error is about the request.
	NewDiscovery func(r verbs.Request, warn func(error)) (verbs.Discovery, error)
	// ProcessLookup returns a function that finds the process of a thread ID that a worker has reported. The function
	// returns false if the thread does not exist or is not visible. It may be called concurrently. The error is about
	// the request.
	ProcessLookup func(verbs.Request) (func(thread int) (identity.Process, bool), error)
	// WorkerFiles returns the files, apart from libraries, that a worker must read to serve the request.
	WorkerFiles func(verbs.Request) []string
	// NewNetwork returns the connections to the plugins of other hosts, if the backend simulates those hosts. It is nil
	// if other hosts are reached over TCP. The error is about the request.
	NewNetwork func(verbs.Request) (exchange.Network, error)
}

// backendRows returns all backends.
func backendRows() []backendRow {
	return []backendRow{
		{verbs.BackendVerbs, newVerbsDiscovery, hostProcessLookup, noWorkerFiles, nil},
		{verbs.BackendSim, newSimDiscovery, simulatedProcessLookup, scenarioFile, newSimNetwork},
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

// findBackend returns the backend with the given name.
func findBackend(name string) (backendRow, bool) {
	i := slices.IndexFunc(backendRows(), func(r backendRow) bool { return r.Name == name })
	if i < 0 {
		return backendRow{}, false
	}
	return backendRows()[i], true
}

func newVerbsDiscovery(_ verbs.Request, warn func(error)) (verbs.Discovery, error) {
	return hotplug.New(hotplug.Config{Warn: warn}), nil
}

func noWorkerFiles(verbs.Request) []string { return nil }

func hostProcessLookup(verbs.Request) (func(thread int) (identity.Process, bool), error) {
	return identity.NewReader("/proc").Process, nil
}

// loadWorld loads the simulation that the request describes.
func loadWorld(r verbs.Request) (*devices.World, error) {
	return devices.Load(devices.Options{Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch})
}

func newSimDiscovery(r verbs.Request, _ func(error)) (verbs.Discovery, error) {
	world, err := loadWorld(r)
	if err != nil {
		return nil, err
	}
	return hotplug.NewSimulated(world, clock.Monotonic), nil
}

func simulatedProcessLookup(r verbs.Request) (func(thread int) (identity.Process, bool), error) {
	world, err := loadWorld(r)
	return func(thread int) (identity.Process, bool) {
		p, ok := world.Process(thread, clock.Monotonic())
		return p.Identity(), ok
	}, err
}

func newSimNetwork(r verbs.Request) (exchange.Network, error) {
	world, err := loadWorld(r)
	if err != nil {
		return nil, err
	}
	return peers.New(world), nil
}

// scenarioFile returns the file of the scenario. It returns nothing for a built-in scenario, which has no path.
func scenarioFile(r verbs.Request) []string {
	if !filepath.IsAbs(r.Sim.Scenario) {
		return nil
	}
	return []string{r.Sim.Scenario}
}
