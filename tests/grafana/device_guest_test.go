//go:build guest

package grafana

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// oneDevice is the configuration for a device of the real kernel, whose port should be up from the start.
const oneDevice = `[[inputs.rdma_events]]
  devices = ["rxe0"]
  [[inputs.rdma_events.expected]]
    devices = ["rxe0"]
`

func TestOnARealDeviceFlapsAndAnOutageFireTheirRules(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, "rxe0", "d0")
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	r := rig.Start(t, rig.Config{Plugin: oneDevice, More: writeTo(t, src, "guest")})
	r.Await("a watched port that is up", patience, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_port", "device", "rxe0").Int("up") == 1
	})
	require.Empty(t, firingRules(t, src, r), "nothing has happened")

	_, err := guest.FlapLink(t.Context(), "d0", guest.Flaps{Count: 3, Down: 40 * time.Millisecond, Period: 300 * time.Millisecond})
	require.NoError(t, err)
	r.Await("three flaps", patience, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_port", "device", "rxe0").Int("flaps") >= 3
	})
	require.Equal(t, []string{"rdma-port-flapping"}, firingRules(t, src, r))

	guest.IP(t, "link", "set", "d0", "down")
	r.Await("the outage", patience, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_port", "device", "rxe0").Int("up") == 0
	})
	require.Equal(t, []string{"rdma-port-down", "rdma-port-flapping"}, firingRules(t, src, r))
	guest.IP(t, "link", "set", "d0", "up")
}

// firingRules waits until the database has all points that Telegraf has now. It then evaluates the rules of the one-minute group,
// now and a minute later, and returns the rules that fire.
func firingRules(t *testing.T, src Source, r *rig.Telegraf) []string {
	t.Helper()
	awaitWritten(t, src, "guest", len(rig.Select(r.Points(), "rdma_collector"))+1)
	file, err := Rules(root)
	require.NoError(t, err)
	now := time.Now()
	var firing []string
	for _, rule := range file.Groups[0].Rules {
		if firesAt(t, src, &rule, &file.Groups[0], now, now.Add(time.Minute)) {
			firing = append(firing, rule.UID)
		}
	}
	return firing
}

func firesAt(t *testing.T, src Source, rule *grafana.Rule, group *grafana.Group, moments ...time.Time) bool {
	t.Helper()
	w, err := NewWatcher(rule, group)
	require.NoError(t, err)
	for _, at := range moments {
		require.NoError(t, w.Evaluate(t.Context(), src, at))
	}
	for _, labels := range w.In(Firing) {
		require.Equal(t, "rxe0", labels["device"], rule.UID)
		require.Equal(t, "guest", labels["host"], rule.UID)
	}
	return len(w.In(Firing)) > 0
}
