package peers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/simulated/devices"
)

func TestEachTroubleOfAScenarioIsJudgedAsWhatItIs(t *testing.T) {
	for _, row := range []struct {
		name, scenario string
		until          time.Duration
		want           []string
	}{
		{"none", ``, 3 * time.Minute, []string{"starting", "ok"}},
		{
			"a way that is cut", `fabric = [{at = "20s", for = "5s", host = "b"}]`, 2 * time.Minute,
			[]string{"starting", "ok", "path", "ok"},
		},
		{
			"a way that is cut in one direction", `fabric = [{at = "20s", for = "5s", host = "b", direction = "reverse"}]`, 2 * time.Minute,
			[]string{"starting", "ok", "path", "ok"},
		},
		{
			"a way that is cut, to another host", `fabric = [{at = "20s", for = "5s", host = "c*"}]`, 40 * time.Second,
			[]string{"starting", "ok"},
		},
		{
			"a black-holed path", `fabric = [{at = "20s", for = "40s", path = 2}]`, 4 * time.Minute,
			[]string{"starting", "ok", "partial 2", "ok"},
		},
		{
			"the write alone", `fabric = [{at = "20s", for = "40s", path = "write"}]`, 80 * time.Second,
			[]string{"starting", "ok", "partial 4", "ok"},
		},
		{
			"loss on the way there", `fabric = [{at = "20s", for = "60s", loss = 0.15, direction = "forward"}]`, 4 * time.Minute,
			[]string{"starting", "ok", "lossy_forward", "ok"},
		},
		{
			"loss on the way back", `fabric = [{at = "20s", for = "60s", loss = 0.15, direction = "reverse"}]`, 4 * time.Minute,
			[]string{"starting", "ok", "lossy_reverse", "ok"},
		},
		{
			"loss on both ways", `fabric = [{at = "20s", for = "60s", loss = 0.2}]`, 4 * time.Minute,
			[]string{"starting", "ok", "lossy_forward", "lossy_both", "ok"},
		},
		{"a loss of less than a fiftieth", `fabric = [{loss = 0.004}]`, 10 * time.Minute, []string{"starting", "ok"}},
		{"a delay", `fabric = [{at = "20s", delay = "20ms"}]`, 2 * time.Minute, []string{"starting", "ok"}},
		{
			"a host that is stopped", `peer = [{at = "20s", for = "6s", what = "stopped"}]`, 50 * time.Second,
			[]string{"starting", "ok", "peer_busy", "ok"},
		},
		{
			"a worker that is stopped", `peer = [{at = "20s", for = "6s", what = "worker_stopped", device = "sim0"}]`, 50 * time.Second,
			[]string{"starting", "ok", "peer_busy", "ok"},
		},
		{
			"a worker that is stopped, of another device", `peer = [{at = "20s", for = "6s", what = "worker_stopped", device = "sim1"}]`,
			50 * time.Second, []string{"starting", "ok"},
		},
		{
			"a busy host", `peer = [{at = "20s", for = "20s", what = "busy"}]`, 70 * time.Second,
			[]string{"starting", "ok", "peer_busy", "ok"},
		},
		{
			"a host that is off", `peer = [{at = "20s", for = "6s", what = "down"}]`, 50 * time.Second,
			[]string{"starting", "ok", "peer_down", "starting", "ok"},
		},
		{
			"a port that is not active", `peer = [{at = "20s", for = "6s", what = "inactive", port = 1}]`, 50 * time.Second,
			[]string{"starting", "ok", "peer_port", "starting", "ok"},
		},
		{
			"a worker that is replaced", `peer = [{at = "20s", for = "300ms", what = "restarts"}]`, 50 * time.Second,
			[]string{"starting", "ok", "starting", "ok"},
		},
		{
			"a worker that is away for long", `peer = [{at = "20s", for = "6s", what = "restarts"}]`, 50 * time.Second,
			[]string{"starting", "ok", "peer_down", "starting", "ok"},
		},
		{
			"a host that is stopped and cut off", `fabric = [{at = "20s", for = "6s"}]` + "\n" + `peer = [{at = "20s", for = "6s", what = "stopped"}]`,
			24 * time.Second, []string{"starting", "ok", "peer_down"},
		},
		{
			"a host that is off from the start", `peer = [{for = "20s", what = "down"}]`, 40 * time.Second,
			[]string{"starting", "ok"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObserver(t, devices.Options{Profile: "roce2", Timeline: row.scenario + "\n", Seed: 7}, "b").runUntil(row.until)
				require.Equal(t, row.want, o.pairs[0].verdicts)
				require.Equal(t, []string{"ok"}, o.own)
			})
		})
	}
}

func TestTroubleOfTheOwnLinkIsSaidOfThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scenario = `fabric = [{at = "20s", for = "3s", device = "sim0", port = 1}]` + "\n"
		o := newObserver(t, devices.Options{Profile: "roce2", Timeline: scenario}, "b", "c", "d", "e").runUntil(3 * time.Minute)
		require.Equal(t, []string{"ok", "own_link", "ok"}, o.own)
		for _, p := range o.pairs {
			require.Equal(t, []string{"starting", "ok", "path"}, p.verdicts[:3], p.name)
		}
	})
}

func TestTroubleOfAGroupIsThatOfItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scenario = `fabric = [{at = "20s", for = "3s", host = "r2-*"}]` + "\n"
		o := newObserver(t, devices.Options{Profile: "roce2", Timeline: scenario}, "r1-a", "r2-a", "r2-b", "r1-b", "r1-c").runUntil(22 * time.Second)
		require.Equal(t, []string{"ok"}, o.own)
		for i, want := range []string{"ok", "path", "path", "ok", "ok"} {
			v, _ := o.pairs[i].judge.Verdict()
			require.Equal(t, want, string(v), o.pairs[i].name)
		}
	})
}

func TestEqualSeedsGiveEqualFactsAndOthersOthers(t *testing.T) {
	var all [3][]verbs.FabricFact
	for i, seed := range []int64{1, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			of := devices.Options{Profile: "roce2", Scenario: "fabric", Seed: seed}
			all[i] = newObserver(t, of, "gpu02", "gpu03", "gpu04", "gpu05", "gpu09", "gpu13").runUntil(time.Minute).facts
		})
	}
	require.Equal(t, all[0], all[1])
	require.NotEqual(t, all[0], all[2])
}

func TestTheBuiltInScenarioShowsEachTroubleWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(t, devices.Options{Profile: "roce2", Scenario: "fabric", Seed: 1}, "gpu02", "gpu03", "gpu04", "gpu05", "gpu09", "gpu13")
		o.runUntil(65 * time.Second) // so that the last period ends
		for i, want := range [][]string{
			{"starting", "ok", "path", "ok", "path", "ok"},
			{"starting", "ok", "partial 1", "path", "ok"},
			{"starting", "ok", "peer_busy", "ok", "peer_port", "starting", "ok", "path", "ok"},
			{"starting", "ok", "lossy_forward", "path", "ok"},
			{"starting", "ok", "starting", "ok", "path", "ok"},
			{"starting", "ok", "peer_down"},
		} {
			require.Equal(t, want, o.pairs[i].verdicts, o.pairs[i].name)
		}
		require.Equal(t, verdict.ReasonFull, o.pairs[5].met.Reason)
		require.Equal(t, []string{"ok", "own_link", "ok"}, o.own)
	})
}
