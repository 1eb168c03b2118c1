package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answeredSample returns the sample of a pair whose last probe and write were answered at a second.
func answeredSample(second int, sent, forward, reverse uint64) *Sample {
	at := int64(second+1) * int64(time.Second)
	return &Sample{At: at, Echoed: at, WriteDone: at, Sent: sent, ForwardLost: forward, ReverseLost: reverse}
}

// A pair loses probes in one direction, and later in the other one. The present direction says where to look.
func TestLossyVerdictFollowsTheDirectionOfTheLoss(t *testing.T) {
	j := NewJudge(0)
	var forward, reverse uint64
	verdicts := map[int]Verdict{}
	for second := range 720 {
		switch {
		case second >= 120 && second < 240 && second%10 == 0:
			reverse++
		case second >= 240 && second < 480 && second%15 == 0:
			forward++
		}
		j.Update(answeredSample(second, 2*uint64(second), forward, reverse))
		verdicts[second], _ = j.Verdict()
	}
	require.Equal(t, []Verdict{VerdictOK, VerdictLossyReverse, VerdictLossyForward, VerdictOK},
		[]Verdict{verdicts[110], verdicts[230], verdicts[460], verdicts[700]})
}

// Of a verdict of both directions, the one that still loses is left.
func TestLossInOneDirectionIsLeftOfBoth(t *testing.T) {
	j := NewJudge(0)
	var forward, reverse uint64
	verdicts := map[int]Verdict{}
	for second := range 600 {
		if second >= 120 && second%10 == 0 {
			forward++
			if second < 240 {
				reverse++
			}
		}
		j.Update(answeredSample(second, 2*uint64(second), forward, reverse))
		verdicts[second], _ = j.Verdict()
	}
	require.Equal(t, []Verdict{VerdictLossyBoth, VerdictLossyForward}, []Verdict{verdicts[230], verdicts[500]})
}

// One path heals while another one dies.
func TestPartialVerdictNamesThePathThatIsSilentNow(t *testing.T) {
	j := NewJudge(0)
	update := func(second int, paths ...PathSample) {
		s := answeredSample(second, uint64(2*second), 0, 0)
		s.Paths = paths
		j.Update(s)
	}
	well, silent := PathSample{Answered: 9}, PathSample{Missed: minMissedInRow}
	update(1, well, well, well)
	update(2, silent, well, well)
	require.Equal(t, 0, j.Path())
	update(3, PathSample{Answered: 1}, well, silent)
	require.Equal(t, 0, j.Path(), "nothing shows yet that it is answered again")
	update(4, PathSample{Answered: minAnsweredInRow}, well, silent)
	v, _ := j.Verdict()
	require.Equal(t, VerdictPartial, v)
	require.Equal(t, 2, j.Path())
}
