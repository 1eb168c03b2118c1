//go:build lab

package lab

import (
	"cmp"
	"os"
	"testing"
	"time"
)

// soak is the test that TestSoak alone runs, for as long as it is told to.
const soak = "^TestSoak$"

// TestSoak runs plugin and Telegraf under faults for ten minutes, or for the duration in RDMA_EVENTS_SOAK.
// RDMA_EVENTS_SOAK_SEED repeats a run's faults.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("the soak belongs to the long form: make soak FOR=10m")
	}
	length := cmp.Or(os.Getenv("RDMA_EVENTS_SOAK"), "10m")
	takes, err := time.ParseDuration(length)
	if err != nil {
		t.Fatalf("RDMA_EVENTS_SOAK=%q is no duration; want one as in FOR=10m", length)
	}
	img, dir := image(t)
	guestBinary{
		pkg: "./tests/lab/system", tests: soak, memory: 2048, timeout: takes + 5*time.Minute,
		env: []string{"RDMA_EVENTS_SOAK=" + length, "RDMA_EVENTS_SOAK_SEED=" + os.Getenv("RDMA_EVENTS_SOAK_SEED")},
	}.run(t, img, dir, usual())
}

// skip keeps the soak, and what the usual kernels cannot do, out of all other runs of their binary.
func (b guestBinary) skip() string {
	if b.tests == soak || b.tests == moves {
		return ""
	}
	return soak + "|" + moves
}
