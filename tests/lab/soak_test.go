//go:build lab

package lab

import (
	"cmp"
	"os"
	"testing"
	"time"
)

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
	v := usualVariant()
	session{
		variant: v, img: prepareImage(t, v.kernel), suites: []suite{system}, tests: system.list(t, soak),
		cpus: 2, memory: 2048, timeout: takes + 5*time.Minute,
		env: []string{"RDMA_EVENTS_SOAK=" + length, "RDMA_EVENTS_SOAK_SEED=" + os.Getenv("RDMA_EVENTS_SOAK_SEED")},
	}.run(t)
}
