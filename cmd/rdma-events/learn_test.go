package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestNamesInARowBecomeOneGlob(t *testing.T) {
	for _, tt := range []struct{ names, want []string }{
		{[]string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}, []string{"mlx5_[0-3]"}},
		{[]string{"mlx5_0", "mlx5_1"}, []string{"mlx5_0", "mlx5_1"}},
		{[]string{"mlx5_3", "mlx5_0", "mlx5_4", "mlx5_5", "mlx5_7"}, []string{"mlx5_0", "mlx5_[3-5]", "mlx5_7"}},
		{[]string{"mlx5_8", "mlx5_9", "mlx5_10", "mlx5_11", "mlx5_12"}, []string{"mlx5_8", "mlx5_9", "mlx5_1[0-2]"}},
		{[]string{"rocep25s0f0", "rocep25s0f1", "storage", "bnxt_re0"}, []string{"bnxt_re0", "storage", "rocep25s0f0", "rocep25s0f1"}},
	} {
		require.Equal(t, tt.want, globsFor(tt.names))
	}
}

func TestLearnedAreActivePortsByTheirRate(t *testing.T) {
	device := func(name, address string) *measure.Device {
		return &measure.Device{Device: name, Present: true, Open: true, Attr: verbs.DeviceAttr{PCIAddress: address}}
	}
	port := func(device string, number int, state verbs.PortState, rate float64) *measure.Port {
		return &measure.Port{
			Device: device, Port: number, HasState: true, Known: true, State: state,
			Attr: verbs.PortAttr{State: state, RateGbps: rate},
		}
	}
	l := learnFrom([]measure.Point{
		device("mlx5_0", "0000:3b:00.0"), device("mlx5_1", "0000:3c:00.0"), device("mlx5_2", "0000:3d:00.0"), device("rxe0", ""),
		&measure.Device{Device: "mlx5_3", Present: true, Reason: status.ReasonReleased}, &measure.Device{Device: "mlx5_4"},
		port("mlx5_0", 1, verbs.PortActive, 400), port("mlx5_0", 2, verbs.PortActive, 200), port("mlx5_1", 1, verbs.PortActive, 200),
		port("mlx5_1", 2, verbs.PortDown, 100), port("mlx5_2", 1, verbs.PortDown, 400), port("rxe0", 1, verbs.PortDown, 10),
	})
	require.Equal(t, map[float64][]string{200: {"mlx5_0", "mlx5_1"}, 0: {"mlx5_2"}}, l.devices)
	require.Equal(t, []string{"mlx5_1:2", "mlx5_2:1"}, l.down)
	require.Equal(t, []string{"rxe0 is left out: it is a soft device", "mlx5_3 is left out: it is not watched (released)"}, l.remarks)
	require.NotContains(t, l.format([]string{"mlx5_2:1", "mlx5_1:2"}), "expected_down", "the configuration has them")
	require.Contains(t, l.format([]string{"mlx5_9:1"}), `expected_down = ["mlx5_9:1", "mlx5_1:2", "mlx5_2:1"]`)
}

func TestNothingIsLearnedSilentlyWhereThereIsNoDevice(t *testing.T) {
	for _, points := range [][]measure.Point{nil, {&measure.Device{Device: "mlx5_4"}}} {
		l := learnFrom(points)
		require.Len(t, l.remarks, 1)
		require.Contains(t, l.remarks[0], "no RDMA device")
	}
}
