package rpingmesh

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var began = time.Unix(1000, 0)

// newProbes returns n probes of host 1 in the first period. The first timedOut of them have timed out.
func newProbes(n, timedOut int, leaf bool, rtt time.Duration) []Probe {
	all := make([]Probe, n)
	for i := range all {
		all[i] = Probe{From: 2, To: 1, Leaf: leaf, Sent: began.Add(time.Duration(i) * time.Millisecond), TimedOut: i < timedOut, RTT: rtt}
	}
	return all
}

func TestAnInterfaceIsBlamedWhenATenthOfItsLeafsProbesTimeOut(t *testing.T) {
	require.Equal(t, []Blame{{To: 1, Why: RNIC, Sent: 10, TimedOut: 2, P99: 1}}, Judge(newProbes(10, 2, true, 1), began, 5))
	require.Equal(t, []Blame{{To: 1, Why: Switch, Sent: 10, TimedOut: 1, P99: 1}}, Judge(newProbes(10, 1, true, 1), began, 5))
	require.Equal(t, Switch, Judge(newProbes(10, 9, false, 1), began, 5)[0].Why, "across, the interface is not blamed")
}

func TestTheNetworkIsBlamedForALongRTT(t *testing.T) {
	require.Empty(t, Judge(newProbes(100, 0, true, 5), began, 5))
	slow := append(newProbes(98, 0, true, 1), newProbes(2, 0, true, 9)...)
	require.Equal(t, []Blame{{To: 1, Why: HighRTT, Sent: 100, P99: 9}}, Judge(slow, began, 5))
	require.Empty(t, Judge(slow[:99], began, 9), "none is above the threshold")
	require.Empty(t, Judge(append(newProbes(99, 0, true, 1), newProbes(1, 0, true, 9)...), began, 5), "one in 100 does not make the percentile")
}

func TestEachPeriodAndEachHostIsJudgedAlone(t *testing.T) {
	probes := append(newProbes(3, 1, true, 1),
		Probe{From: 1, To: 2, Sent: began.Add(Period), TimedOut: true}, Probe{From: 1, To: 2, Sent: began.Add(-1), TimedOut: true})
	all := Judge(probes, began, 5)
	require.Len(t, all, 2)
	require.Equal(t, []int{0, 1, 1, 2}, []int{all[0].Period, all[0].To, all[1].Period, all[1].To})
	require.Equal(t, 1, all[1].Sent, "what was sent before is not judged")
}
