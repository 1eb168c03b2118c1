package e2e

import (
	"flag"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// The default number of rounds takes 20 s at most.
var killRounds = flag.Int("kill.rounds", 8, "rounds of kill -9; make test-full does 300")

func TestKilledProcessIsReplacedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	k := rig.NewKiller(t, rig.Config{Plugin: simulated}, rig.Seed(t), "sim0", "sim1", "sim2", "sim3")
	killed := map[rig.Victim]int{}
	began := time.Now()
	for range *killRounds {
		killed[k.Round(func() {})]++
	}
	k.Finish()
	t.Logf("killed %v in %v; open again, beyond the delay of a restart, after at most %v",
		killed, time.Since(began).Round(time.Second), k.Worst)
}
