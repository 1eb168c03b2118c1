package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/verbs"
	"rdma_events/internal/watch"
	"rdma_events/internal/worker"
)

func TestReasonIsStartingUntilTheDeviceIsOpen(t *testing.T) {
	h := start(t, nil)
	h.finds(found("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	reason := func() watch.Reason { return deviceView(h.gather(), "mlx5_0").Reason }
	require.Equal(t, watch.ReasonStarting, reason())
	sup.Status(worker.Status{State: worker.StateStarting, Reason: watch.ReasonOK})
	require.Equal(t, watch.ReasonStarting, reason())
	h.opens(sup, "mlx5_0")
	require.Equal(t, watch.ReasonOK, reason())

	sup.Ended(watch.Ended{Reason: watch.ReasonRemoved})
	h.finds()
	require.Equal(t, watch.ReasonRemoved, reason())
	h.finds(found("mlx5_0", 1))
	require.Equal(t, watch.ReasonStarting, reason())
	sup.Ended(watch.Ended{Reason: watch.ReasonNoPermission})
	sup.Status(worker.Status{State: worker.StateStarting, Reason: watch.ReasonNoPermission})
	require.Equal(t, watch.ReasonNoPermission, reason(), "it was refused")
}

func TestProbeOfAnAbsentDeviceIsNotOK(t *testing.T) {
	round := watch.Item{Round: &watch.RoundItem{
		Port: 1, Method: verbs.MethodRCWrite, Round: verbs.Round{Outcome: verbs.OutcomeSuccess, Wake: 1},
	}}
	for name, leave := range map[string]func(*harness, *fakeSupervisor){
		"discovery no longer finds it": func(h *harness, _ *fakeSupervisor) { h.finds() },
		"its worker was killed": func(_ *harness, s *fakeSupervisor) {
			s.Ended(watch.Ended{Reason: watch.ReasonCrashed})
		},
		"its worker lets go of it": func(h *harness, s *fakeSupervisor) {
			h.batch(s, watch.Item{Ended: &watch.Ended{Reason: watch.ReasonRemoved}})
		},
		"a round's end comes late": func(h *harness, s *fakeSupervisor) {
			h.finds()
			h.batch(s, round)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, sup, _ := one(t, nil)
			h.batch(sup, round)
			p := h.gather().Probes[0]
			require.True(t, p.HasOK && p.OK)
			leave(h, sup)
			h.mono.Add(3600 * sec)
			require.False(t, h.gather().Probes[0].HasOK)

			h.finds(found("mlx5_0", 1))
			h.opens(sup, "mlx5_0")
			require.False(t, h.gather().Probes[0].HasOK, "no round has ended")
			h.batch(sup, round)
			require.True(t, h.gather().Probes[0].HasOK)
		})
	}
}
