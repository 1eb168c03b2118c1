//go:build linux && cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/verbs"
)

func TestHostAndWorkerHaveTheSameBackends(t *testing.T) {
	var names []string
	for _, b := range backends() {
		names = append(names, b.name)
	}
	require.Equal(t, agent.BackendNames(), names)
}

func TestUnknownBackendIsAnErrorThatNamesTheOthers(t *testing.T) {
	_, err := openBackend(verbs.Request{Backend: "x"})
	require.EqualError(t, err, `it is not "verbs" or "sim"`)
	_, err = openBackend(verbs.Request{Backend: verbs.BackendSim, Sim: verbs.Simulation{Profile: "nonsense"}})
	require.ErrorContains(t, err, "nonsense")
}
