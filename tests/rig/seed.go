package rig

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable repeats the schedule of an earlier run.
const seedVariable = "RDMA_EVENTS_SEED"

// Seed draws the seed of a schedule of faults, unless the environment has one,
// and prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q is no seed; want a number as a run has printed it", seedVariable, text)
		}
	}
	t.Logf("the schedule's seed; to repeat it: %s=%d", seedVariable, seed)
	return seed
}
