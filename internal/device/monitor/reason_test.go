package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

func TestReasonIsStartingUntilTheDeviceIsOpen(t *testing.T) {
	h := startMonitor(t, nil)
	h.reportFound(foundDevice("mlx5_0", 0))
	sup := h.sup("mlx5_0", 0)
	reason := func() status.Reason { return findDevice(h.gather(), "mlx5_0").Reason }
	require.Equal(t, status.ReasonStarting, reason())
	sup.Status(status.Status{State: status.StateStarting, Reason: status.ReasonOK})
	require.Equal(t, status.ReasonStarting, reason())
	h.openDevice(sup, "mlx5_0")
	require.Equal(t, status.ReasonOK, reason())

	sup.Ended(status.End{Reason: status.ReasonRemoved})
	h.reportFound()
	require.Equal(t, status.ReasonRemoved, reason())
	h.reportFound(foundDevice("mlx5_0", 1))
	require.Equal(t, status.ReasonStarting, reason())
	sup.Ended(status.End{Reason: status.ReasonNoPermission})
	sup.Status(status.Status{State: status.StateStarting, Reason: status.ReasonNoPermission})
	require.Equal(t, status.ReasonNoPermission, reason(), "it was refused")
}

func TestProbeOfAnAbsentDeviceIsNotOK(t *testing.T) {
	round := verbs.Item{Round: &verbs.RoundItem{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, Round: verbs.Round{Outcome: verbs.OutcomeSuccess, Wake: 1},
	}}
	for name, leave := range map[string]func(*harness, *fakeSupervisor){
		"discovery no longer finds it": func(h *harness, _ *fakeSupervisor) { h.reportFound() },
		"its worker was killed": func(_ *harness, s *fakeSupervisor) {
			s.Ended(status.End{Reason: status.ReasonCrashed})
		},
		"its worker found it removed": func(_ *harness, s *fakeSupervisor) {
			s.Ended(status.End{Reason: status.ReasonRemoved})
		},
		"a round's end comes late": func(h *harness, s *fakeSupervisor) {
			h.reportFound()
			h.batch(s, round)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, sup, _ := startWithOpenDevice(t, nil)
			h.batch(sup, round)
			p := h.gather().Probes[0]
			require.True(t, p.HasOK && p.OK)
			leave(h, sup)
			h.mono.Add(3600 * sec)
			require.False(t, h.gather().Probes[0].HasOK)

			h.reportFound(foundDevice("mlx5_0", 1))
			h.openDevice(sup, "mlx5_0")
			require.False(t, h.gather().Probes[0].HasOK, "no round has ended")
			h.batch(sup, round)
			require.True(t, h.gather().Probes[0].HasOK)
		})
	}
}
