//go:build linux && cgo

package open

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/backends"
	"rdma_events/internal/device/verbs"
)

func TestHostAndWorkerHaveTheSameBackends(t *testing.T) {
	var names []string
	for _, row := range All() {
		names = append(names, row.Name)
	}
	require.Equal(t, backends.Names(), names)
}

func TestUnknownBackendIsAnErrorThatNamesTheOthers(t *testing.T) {
	_, err := Backend(verbs.Request{Backend: "x"})
	require.EqualError(t, err, `it is not "verbs" or "sim"`)
	_, err = Backend(verbs.Request{Backend: verbs.BackendSim, Sim: verbs.Simulation{Profile: "nonsense"}})
	require.ErrorContains(t, err, "nonsense")
}
