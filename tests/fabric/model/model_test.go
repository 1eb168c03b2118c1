package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// runs is how many runs TestPlantedFaultsAreFound has; their seeds are 1 to runs.
var runs = flag.Int("model.runs", 20, "runs of the model")

// The faults are those that were committed before the code of the verdicts.
func TestThePlansAreThoseThatWereFixed(t *testing.T) {
	sum := sha256.New()
	for seed := range uint64(1000) {
		require.NoError(t, json.NewEncoder(sum).Encode(Planned(seed+1)))
	}
	require.Equal(t, "372e7644ac56ff3168ab59aa93cfd9d2ed2b0225e4056698960e6c96c6c1c989", hex.EncodeToString(sum.Sum(nil)))
}

func TestPlantedFaultsAreFound(t *testing.T) {
	f, err := New()
	require.NoError(t, err)
	var s Score
	for seed := uint64(1); seed <= uint64(*runs); seed++ {
		p := Planned(seed)
		o := f.Run(seed, &p)
		s.Blame(&p, o)
		missed, wrong := s.Add(&p, o.Suspects())
		if len(missed)+len(wrong) > 0 {
			t.Logf("run %d: missed %+v, wrong %+v, of %+v", seed, missed, wrong, p.Faults)
		}
	}
	t.Logf("%d runs: precision %.2f %%, recall %.2f %%, direction %d of %d (%+v)",
		*runs, s.Precision(), s.Recall(), s.Direction, s.Directed, s)
	t.Logf("%d network verdicts: %d on pairs without loss, %d on pairs with congested paths; %d own links: %d of hosts that were well",
		s.Verdicts, s.Unfounded, s.Congested, s.OwnLinks, s.Innocent)
	require.GreaterOrEqual(t, s.Precision(), 98.2)
	require.GreaterOrEqual(t, s.Recall(), 99.3)
	require.Zero(t, s.Unfounded, "a pair without loss is ok")
	require.Zero(t, s.Innocent, "a host that is well does not blame its own link")
	require.GreaterOrEqual(t, 100*s.Direction, 99*s.Directed, "of 100 directions 99")
}
