package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
)

func TestEachBackendIsFoundByItsName(t *testing.T) {
	for _, name := range BackendNames() {
		row, ok := findBackend(name)
		require.True(t, ok)
		require.Equal(t, name, row.Name)
	}
	_, ok := findBackend("x")
	require.False(t, ok)
}

func TestOnlyAScenarioOfAFileIsRead(t *testing.T) {
	row, _ := findBackend(verbs.BackendSim)
	r := verbs.Request{Sim: verbs.Simulation{Scenario: "/etc/drops.toml"}}
	require.Equal(t, []string{"/etc/drops.toml"}, row.WorkerFiles(r))
	r.Sim.Scenario = "drops"
	require.Empty(t, row.WorkerFiles(r))
	row, _ = findBackend(verbs.BackendVerbs)
	require.Empty(t, row.WorkerFiles(verbs.Request{Sim: verbs.Simulation{Scenario: "/etc/drops.toml"}}))
}

func TestUnknownProfileIsAnError(t *testing.T) {
	row, _ := findBackend(verbs.BackendSim)
	_, err := row.NewDiscovery(verbs.Request{Sim: verbs.Simulation{Profile: "x"}}, nil)
	require.Error(t, err)
}

func TestSimulatedHostsAreReachedWithoutANetwork(t *testing.T) {
	row, _ := findBackend(verbs.BackendSim)
	network, err := row.NewNetwork(verbs.Request{Sim: verbs.Simulation{Profile: "roce2", Scenario: "fabric", Seed: 1}})
	require.NoError(t, err)
	peer, err := network.Peer(pinglist.Host{Name: "gpu02"})
	require.NoError(t, err)
	state, err := peer.State(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, state.Ports, 2)
	require.NoError(t, peer.Close())
	_, err = row.NewNetwork(verbs.Request{Sim: verbs.Simulation{Profile: "x"}})
	require.Error(t, err)
	row, _ = findBackend(verbs.BackendVerbs)
	require.Nil(t, row.NewNetwork)
}
