package rdma_events

import (
	"testing"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

func TestInnerLogLinesNameTheDeviceFirstAndKeepTheirLevel(t *testing.T) {
	log := &testutil.CaptureLogger{Name: "x"}
	l := newLogger(log)
	device := l.With("device", "mlx5_0")
	device.Warn("worker crashed; restarting in 250ms", "reason", "crashed")
	device.Error("mlx5_0 is stuck")
	l.Info("no RDMA devices", "device", "all")
	device.WithGroup("g").Debug("detail", "pid", 12)
	require.Equal(t, []string{"W! [x] mlx5_0: worker crashed; restarting in 250ms, reason crashed"}, log.Warnings())
	require.Equal(t, []string{"E! [x] mlx5_0 is stuck"}, log.Errors())
	var all []string
	for _, e := range log.Messages() {
		all = append(all, e.Text)
	}
	require.Contains(t, all, "all: no RDMA devices")
	require.Contains(t, all, "mlx5_0: detail, pid 12")
}
