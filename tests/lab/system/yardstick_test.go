//go:build guest

package system

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The wake-up latency depends on how long the CPU was idle before, so both
// keep the same pace, in turns.
func TestWakeIsAsGoodAsTheCProgramsAtTheSamePace(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const (
		pace   = 4 * time.Millisecond
		rounds = 800
		turns  = 5
	)
	var ratios []float64
	for range turns {
		c := yardstick(t, rounds, pace)
		ours := wakeP50(t, rounds, pace)
		ratios = append(ratios, float64(ours)/float64(c))
		t.Logf("wake p50: C %.1f us, plugin %.1f us, ratio %.2f", float64(c)/1000, float64(ours)/1000, ratios[len(ratios)-1])
	}
	slices.Sort(ratios)
	t.Logf("median ratio %.3f, from %.3f to %.3f", ratios[turns/2], ratios[0], ratios[turns-1])
	if ratios[turns/2] > 1.25 {
		t.Errorf("median ratio: want at most 1.25, got %.3f", ratios[turns/2])
	}
}

func yardstick(t *testing.T, rounds int, pace time.Duration) int64 {
	t.Helper()
	cmd := exec.Command(os.Getenv("CQPROBE_BIN"), device, strconv.Itoa(rounds), strconv.Itoa(int(pace.Microseconds())))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run the yardstick: %v: %s", err, out)
	}
	var p50 int64
	if _, err := fmt.Sscanf(string(out), "wake p50 %d", &p50); err != nil {
		t.Fatalf("parse %q: %v", out, err)
	}
	return p50
}

func wakeP50(t *testing.T, rounds int64, pace time.Duration) int64 {
	t.Helper()
	r := rig.Start(t, rig.Config{Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = %q
    timeout = %q
`, pace, pace-time.Millisecond)})
	defer r.Stop()
	points := awaitProbe(r, "rc_write", rounds, 0)
	return rig.Last(points, "rdma_cq_probe", "method", "rc_write").Int("wake_ns_p50")
}
