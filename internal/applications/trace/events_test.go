package trace_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

func TestErrorsAreCountedAndNamed(t *testing.T) {
	require.Equal(t, "cq_err, qp_fatal, qp_req_err, qp_access_err, srq_err, wq_fatal and device_fatal", trace.ErrorNames("and"))
	require.Subset(t, trace.EventTypes(), trace.ErrorTypes())
	for typ := range verbs.EventType(trace.Types) {
		require.Equal(t, typ.Scope() != verbs.ScopePort, slices.Contains(trace.EventTypes(), typ), typ)
		require.Equal(t, trace.IsError(typ), slices.Contains(trace.ErrorTypes(), typ), typ)
	}
}
