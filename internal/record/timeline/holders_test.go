package timeline

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

func appObjects(ms int, device, app, unit string, processes int64) *measure.App {
	return &measure.App{
		Device: device, App: app, Unit: unit, At: at(ms),
		Processes: measure.Held{Count: processes, Known: true}, QPs: measure.Held{Count: 8 * processes, Known: true},
	}
}

func TestUnitsThatHoldDevicesAreRecorded(t *testing.T) {
	unknown := &measure.App{Device: "mlx5_1", App: UnknownApps, QPs: measure.Held{Count: 3, Known: true}, At: at(0)}
	refused := &measure.App{Device: "mlx5_0", App: "python3", Unit: "job_1870", At: at(20 * second)}
	all := runRecording(t, t.TempDir()+"/r", func(r *Recording) {
		for _, points := range [][]measure.Point{
			{appObjects(0, "mlx5_0", "python3", "job_1870", 4), appObjects(0, "mlx5_0", "sshd", "", 1), unknown},
			{appObjects(10*second, "mlx5_0", "python3", "job_1870", 8), unknown},
			{refused, unknown}, // the kernel did not list them
			{appObjects(30*second, "mlx5_0", "python3", "job_1870", 0), unknown},
			{unknown},
			{appObjects(50*second, "mlx5_0", "python3", "job_1870", 1)},
		} {
			r.RecordInterval(points)
		}
	})
	require.Equal(t, []string{
		"mlx5_0 python3 job_1870 holds mlx5_0, 4 processes",
		"mlx5_1 unknown holds mlx5_1",
		"mlx5_0 python3 job_1870 no longer holds mlx5_0",
		"mlx5_0 python3 job_1870 holds mlx5_0, 1 process",
	}, withoutTimes(all))
	require.True(t, all[1].App.IsOfUnknownUnit())
	for _, k := range all {
		text, err := json.Marshal(k)
		require.NoError(t, err)
		schema.Require(t, "events", string(text))
	}
}

// Any user can start any number of processes. The next interval records the changes that an interval leaves out.
func TestHoldersOfOneIntervalAreBounded(t *testing.T) {
	var points []measure.Point
	for i := range 3 * maxHolders / 2 {
		points = append(points, appObjects(0, "mlx5_0", "python3", fmt.Sprintf("job_%d", i), 1))
	}
	h := holders{}
	require.Len(t, h.changes(points), maxHolders)
	require.Len(t, h.changes(points), maxHolders/2)
	require.Empty(t, h.changes(points))
	require.Empty(t, h.changes(nil))
	require.Empty(t, h, "the device was removed")
}
