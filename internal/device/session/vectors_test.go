package session

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/sessiontest"
	"rdma_events/internal/device/verbs"
)

// A large host has as many completion vectors as processors. Each vector of both ports has had flush and another method by then.
func TestAllVectorsHaveTheirProbesAgainAfterALinkWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{sessiontest.NewWithVectors(t, runWithObjects, "dual", "[[link]]\nat = \"0s\"\ndown_for = \"20s\"\n", 256)}
		r.Options.Probe.Vectors = []int{-1}
		r.Start(nil)
		last := map[verbs.ProbeKey]verbs.Method{}
		for _, it := range r.After(5 * time.Minute) {
			if it.Probe != nil {
				last[verbs.ProbeKey{Port: it.Probe.Port, Vector: it.Probe.Vector}] = it.Probe.Method
			}
		}
		methods := map[verbs.Method]int{}
		for _, m := range last {
			methods[m]++
		}
		require.Equal(t, map[verbs.Method]int{verbs.MethodRCWrite: 256, verbs.MethodUDSend: 256}, methods)
	})
}
