package monitor

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestPortErrorIsLoggedOnceUntilItChanges(t *testing.T) {
	var log strings.Builder
	h, sup, _ := startWithOpenDevice(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil)) // logs from level Info on
	})
	warnings := func(items ...verbs.Item) int {
		log.Reset()
		h.batch(sup, items...)
		return strings.Count(log.String(), "level=WARN")
	}
	failed := func(why string) verbs.Item { return verbs.Item{Reading: &verbs.Reading{Port: 1, Err: why}} }
	require.Equal(t, 1, warnings(failed("EIO"), failed("EIO")))
	require.Contains(t, log.String(), `msg="port query failed" device=mlx5_0 port=1 error=EIO`)
	require.Equal(t, 2, warnings(failed("EINVAL"), readingItem(1, 1, verbs.PortActive), failed("EINVAL")))

	refused := readingItem(1, 2, verbs.PortActive)
	refused.Reading.Refused = "counters (EINVAL)"
	require.Equal(t, 1, warnings(refused, refused, refused))
	require.Contains(t, log.String(), `msg="firmware refuses reads of the port" device=mlx5_0 port=1 read="counters (EINVAL)"`)
	require.Contains(t, log.String(), "devices_exclude")
	query := failed("EINVAL")
	query.Reading.Refused = "ibv_query_port (EINVAL)"
	require.Equal(t, 1, warnings(readingItem(1, 2, verbs.PortActive), failed("EINVAL"), failed("EINVAL"), query, query), "one line in all")

	probe := func(vector int, m verbs.Method, why string) verbs.Item {
		return verbs.Item{Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1, Vector: vector, Method: m}, Reason: why}}
	}
	require.Equal(t, 1, warnings(readingItem(1, 2, verbs.PortActive), probe(0, verbs.MethodNone, "no room"), probe(1, verbs.MethodNone, "no room")))
	require.Contains(t, log.String(), `msg="probe unavailable" device=mlx5_0 port=1 error="no room"`)
	require.Equal(t, 1, warnings(probe(0, verbs.MethodRCWrite, "as preferred"), probe(0, verbs.MethodNone, "no room")))
	require.Zero(t, warnings(readingItem(1, 3, verbs.PortDown), probe(0, verbs.MethodNone, "the port is down")))
}
