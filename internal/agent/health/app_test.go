package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// The series of an application begins with its first event.
func TestTheFirstEventOfAnApplicationMayBeAnError(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	first := &measure.AppAsync{Device: "mlx5_0", App: "100%d", Unit: "job_1870"}
	first.Types[verbs.EventQPAccessErr] = 3
	at := noon.Add(2 * time.Minute)
	s := k.Observe(append(h.Points(at), first), at)
	require.Equal(t, []Problem{{
		ID: "app-errors", Severity: alerts.Warning, Device: "mlx5_0", Of: "100%d job_1870", Since: at, Text: "100%d job_1870 had error events, 3 in all",
	}}, s.Problems)
	at = at.Add(halfHour + 10*time.Second)
	require.Empty(t, k.Observe(append(h.Points(at), first), at).Problems)
}

func TestAProblemOfAnApplicationNamesIt(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.App.Unit, h.App.Unread, h.App.UnreadErrors = "job_1870", 7, 2
	h.Hang = measure.AppHang{
		Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP, Threads: 2, Age: int64(40 * time.Second), Missing: 1, PID: 4711, TID: 4713,
		Number: 284, Proof: trace.ProofAsleep,
	}
	s := observeFor(k, h, noon, 2*time.Minute)
	at := noon.Add(2 * time.Minute)
	require.Equal(t, []Problem{
		{
			ID: "app-errors-unread", Severity: alerts.Warning, Device: "mlx5_0", Of: "python3 job_1870", Since: noon,
			Text: "python3 job_1870 does not read its error events, 2 wait",
		},
		{
			ID: "app-destroy-hangs", Severity: alerts.Warning, Device: "mlx5_0", Of: "python3 qp", Since: at.Add(-40 * time.Second),
			Text: "python3, pid 4711, hangs in the destruction of qp 284: acknowledgements are missing, 1 of them",
		},
	}, s.Problems)
}

func TestOwnWorkersRaiseNoAlertOfApplications(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.App.App, h.App.UnreadErrors = status.WorkerComm, 2
	h.App.Types[verbs.EventDeviceFatal] = 2
	h.Hang = measure.AppHang{Device: "mlx5_0", App: status.WorkerComm, Object: verbs.ScopeQP, Threads: 1, Age: int64(time.Minute)}
	require.Empty(t, observeFor(k, h, noon, 10*time.Minute).Problems)
}

func TestATracerIsBlindWhileItIsNotAttached(t *testing.T) {
	of := func(reason status.Reason) *healthtest.Host {
		h := healthtest.Healthy()
		h.Tracer = measure.Tracer{Worker: status.Status{State: status.StateBackingOff, Reason: reason}}
		return h
	}
	k := NewKeeper("v1", "gpu-17")
	require.Empty(t, observeFor(k, of(status.ReasonNoPermission), noon, 10*time.Minute-10*time.Second).Problems)
	s := observeFor(k, of(status.ReasonNoPermission), noon.Add(10*time.Minute), day)
	require.Equal(t, "tracer-blind", problemIDs(s))
	require.Equal(t, "the events of applications are not seen: no_permission", s.Problems[0].Text)
	for _, reason := range []status.Reason{status.ReasonUnsupported, status.ReasonNoDevice} {
		require.Empty(t, observeFor(NewKeeper("v1", "gpu-17"), of(reason), noon, time.Hour).Problems, reason)
	}
}

// What an older plugin reports, or one without the options.
func TestNothingIsKnownOfApplicationsWithoutTheirPoints(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	for at := noon; at.Before(noon.Add(time.Hour)); at = at.Add(10 * time.Second) {
		require.Empty(t, k.Observe([]measure.Point{&h.Async, &h.Port, &h.Device, &measure.Host{At: at}, &h.Collector}, at).Problems)
	}
}
