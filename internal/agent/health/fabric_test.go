package health

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

func TestALinkIsBlamedAfterAMinuteAndUntilItIsWell(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	look := func(at time.Time, bad bool, age time.Duration) []Problem {
		p := &measure.FabricPort{Device: "mlx5_0", Port: 1, Bad: bad, VerdictAgeNS: int64(age), At: at}
		p.ForwardLost, p.ReverseLost = 70, 5
		return k.Observe(append(h.Points(at), p), at).Problems
	}
	require.Empty(t, look(noon, true, 30*time.Second))
	require.Equal(t, []Problem{{
		ID: "fabric-own-link", Severity: alerts.Critical, Device: "mlx5_0", Port: 1, Since: noon.Add(-30 * time.Second),
		Text: "the port does not reach its peers: 70 probes lost on the forward path and 5 on the reverse path, in all",
	}}, look(noon.Add(time.Minute), true, 90*time.Second))
	require.Empty(t, look(noon.Add(2*time.Minute), false, 10*time.Second))
}

func TestAPairIsAProblemIfNoPairOfThePortIsWell(t *testing.T) {
	pair := func(peer string, verdict verdict.Verdict, at time.Time) *measure.FabricPeer {
		return &measure.FabricPeer{Device: "mlx5_0", Port: 1, PeerHost: peer, Verdict: verdict, Bad: true, AgeNS: int64(at.Sub(noon)), At: at}
	}
	for name, one := range map[string]struct {
		met, down int64
		verdicts  map[string]verdict.Verdict
		text      string
	}{
		"two hosts":                   {1, 0, map[string]verdict.Verdict{"h2": "path"}, "h2"},
		"three hosts":                 {2, 0, map[string]verdict.Verdict{"h3": "partial", "h2": "path"}, "h2, h3"},
		"three hosts, one is down":    {2, 1, map[string]verdict.Verdict{"h3": "path"}, "h3"},
		"three hosts, one is well":    {2, 0, map[string]verdict.Verdict{"h3": "path"}, ""},
		"two hosts that lose packets": {1, 0, map[string]verdict.Verdict{"h2": "lossy_both"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			look := func(at time.Time) []Problem {
				p := &measure.FabricPort{Device: "mlx5_0", Port: 1, At: at}
				p.Pairs, p.PairsMet, p.PairsDown = one.met, one.met, one.down
				points := append(h.Points(at), p)
				for peer, verdict := range one.verdicts {
					points = append(points, pair(peer, verdict, at))
				}
				return k.Observe(points, at).Problems
			}
			require.Empty(t, look(noon))
			require.Empty(t, look(noon.Add(4*time.Minute)))
			want := []Problem{}
			if one.text != "" {
				want = []Problem{{
					ID: "fabric-pair", Severity: alerts.Warning, Device: "mlx5_0", Port: 1, Since: noon,
					Text: "the network swallows packets between the port and all of its peers: " + one.text,
				}}
			}
			require.Equal(t, want, look(noon.Add(5*time.Minute)))
		})
	}
}

func TestAPortHasTheNumbersOfItsPairs(t *testing.T) {
	look := func(p *measure.FabricPort) *Status {
		return NewKeeper("v1", "gpu-17").Observe(append(healthtest.Healthy().Points(noon), p), noon)
	}
	p := &measure.FabricPort{Device: "mlx5_0", Port: 1, Verdict: "ok", At: noon}
	p.Pairs, p.PairsMet, p.PairsBad, p.PairsBusy, p.PairsDown = 8, 7, 2, 1, 3
	s := look(p)
	require.Equal(t, &Fabric{Verdict: "ok", Pairs: 8, Met: 7, Bad: 2, Busy: 1, Down: 3}, s.Devices[0].Ports[0].Fabric)
	object, err := json.Marshal(s)
	require.NoError(t, err)
	schema.Require(t, "status", string(object))

	for _, other := range []*measure.FabricPort{{Device: "mlx5_0", Port: 2, At: noon}, {Device: "mlx5_1", Port: 1, At: noon}} {
		require.Nil(t, look(other).Devices[0].Ports[0].Fabric, "it is not of this status")
	}
}
