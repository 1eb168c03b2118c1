// Package backends has a row for each value of the option backend, as the host uses it. The rows of the worker need cgo, and are in
// its program.
package backends

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

// Row is one backend.
type Row struct {
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

// All returns the rows.
func All() []Row {
	return []Row{
		{verbs.BackendVerbs, discoverVerbs, processOfHost, readsNothing, nil},
		{verbs.BackendSim, discoverSim, simulatedProcess, readsScenario, simulatedNetwork},
	}
}

// Names returns the names of the rows.
func Names() []string {
	var names []string
	for _, row := range All() {
		names = append(names, row.Name)
	}
	return names
}

// Find returns the row of a name.
func Find(name string) (Row, bool) {
	i := slices.IndexFunc(All(), func(r Row) bool { return r.Name == name })
	if i < 0 {
		return Row{}, false
	}
	return All()[i], true
}

func discoverVerbs(_ verbs.Request, warn func(error)) (verbs.Discovery, error) {
	return hotplug.New(hotplug.Config{Warn: warn}), nil
}

func readsNothing(verbs.Request) []string { return nil }

func processOfHost(verbs.Request) (func(thread int) (identity.Process, bool), error) {
	return identity.NewReader("/proc").Process, nil
}

func load(r verbs.Request) (*devices.World, error) {
	return devices.Load(devices.Options{Profile: r.Sim.Profile, Scenario: r.Sim.Scenario, Seed: r.Sim.Seed, Epoch: r.Sim.Epoch})
}

func discoverSim(r verbs.Request, _ func(error)) (verbs.Discovery, error) {
	world, err := load(r)
	if err != nil {
		return nil, err
	}
	return hotplug.NewSimulated(world, clock.Monotonic), nil
}

func simulatedProcess(r verbs.Request) (func(thread int) (identity.Process, bool), error) {
	world, err := load(r)
	return func(thread int) (identity.Process, bool) {
		p, ok := world.Process(thread, clock.Monotonic())
		return p.Identity(), ok
	}, err
}

func simulatedNetwork(r verbs.Request) (exchange.Network, error) {
	world, err := load(r)
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
