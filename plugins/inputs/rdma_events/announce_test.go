package rdma_events

import (
	"context"
	"testing"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

func texts(log *testutil.CaptureLogger) []string {
	var all []string
	for _, m := range log.Messages() {
		all = append(all, m.Text)
	}
	return all
}

func openDevice() *measure.Device {
	return &measure.Device{
		Device: "mlx5_0", Present: true, Open: true,
		Attr: verbs.DeviceAttr{
			Name: "mlx5_0", Ports: 1, Vectors: 63, EventsSupported: true, Driver: "mlx5_core", Firmware: "22.39.2048",
		},
	}
}

func TestEachOpeningIsLoggedOnce(t *testing.T) {
	log := &testutil.CaptureLogger{}
	a := newAnnouncer(newLogger(log))
	v, closed, event := openDevice(), openDevice(), &measure.Event{}
	closed.Open = false
	for _, p := range []measure.Point{closed, v, v, event, closed, v} {
		a.see(p)
	}
	line := "mlx5_0: open: driver mlx5_core, ports 1, completion vectors 63, firmware 22.39.2048"
	require.Equal(t, []string{line, line}, texts(log))
}

func TestADriverWithoutEventsIsSaidToHaveNone(t *testing.T) {
	v := openDevice()
	v.Attr.EventsSupported = false
	require.Contains(t, summary(v), "raises no asynchronous events")
}

type sets [][]verbs.Found

func (s sets) Run(_ context.Context, report func([]verbs.Found)) error {
	for _, set := range s {
		report(set)
	}
	return nil
}

func TestAHostWithoutDevicesIsLogged(t *testing.T) {
	log := &testutil.CaptureLogger{}
	reports := 0
	l := listening{sets{nil, {{Name: "mlx5_0"}}}, newLogger(log)}
	require.NoError(t, l.Run(t.Context(), func([]verbs.Found) { reports++ }))
	require.Equal(t, 2, reports)
	require.Len(t, texts(log), 1)
}
