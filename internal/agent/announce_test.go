package agent

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func openDevice() *measure.Device {
	return &measure.Device{
		Device: "mlx5_0", Present: true, Open: true,
		Attr: verbs.DeviceAttr{
			Name: "mlx5_0", Ports: 1, Vectors: 63, EventsSupported: true, Driver: "mlx5_core", Firmware: "22.39.2048",
		},
	}
}

func TestEachOpeningIsLoggedOnce(t *testing.T) {
	log := &captured{}
	a := newAnnouncer(log.logger())
	v, closed, event := openDevice(), openDevice(), &measure.Event{}
	closed.Open = false
	for _, p := range []measure.Point{closed, v, v, event, closed, v} {
		a.logIfOpened(p)
	}
	line := "open: driver mlx5_core, ports 1, completion vectors 63, firmware 22.39.2048, device mlx5_0"
	require.Equal(t, []string{line, line}, log.at(slog.LevelInfo))
}

func TestADriverWithoutEventsIsSaidToHaveNone(t *testing.T) {
	v := openDevice()
	v.Attr.EventsSupported = false
	require.Contains(t, describeDevice(v), "raises no asynchronous events")
}

type fakeDiscovery [][]verbs.Found

func (s fakeDiscovery) Run(_ context.Context, report func([]verbs.Found)) error {
	for _, set := range s {
		report(set)
	}
	return nil
}

func TestAHostWithoutDevicesIsLogged(t *testing.T) {
	log := &captured{}
	reports := 0
	l := loggingDiscovery{fakeDiscovery{nil, {{Name: "mlx5_0"}}}, log.logger()}
	require.NoError(t, l.Run(t.Context(), func([]verbs.Found) { reports++ }))
	require.Equal(t, 2, reports)
	require.Len(t, log.at(slog.LevelInfo), 1)
}
