//go:build linux && cgo

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	hostbackends "rdma_events/internal/agent/backends"
	"rdma_events/internal/device/verbs"
)

func TestHostAndWorkerHaveTheSameBackends(t *testing.T) {
	var names []string
	for _, b := range backends() {
		names = append(names, b.name)
	}
	require.Equal(t, hostbackends.Names(), names)
}

func TestUnknownBackendIsAnErrorThatNamesTheOthers(t *testing.T) {
	_, err := openBackend(verbs.Request{Backend: "x"})
	require.EqualError(t, err, `it is not "verbs" or "sim"`)
	_, err = openBackend(verbs.Request{Backend: verbs.BackendSim, Sim: verbs.Simulation{Profile: "nonsense"}})
	require.ErrorContains(t, err, "nonsense")
}
