package rig

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// seedVariable is the environment variable with the seed of an earlier run, whose
// schedule is repeated.
const seedVariable = "RDMA_EVENTS_SEED"

// Seed returns the seed of a schedule of faults and logs it. The seed is random,
// unless the environment has one.
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
