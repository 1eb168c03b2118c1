package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEchoIsMissingAfter100msAndReportedOnce(t *testing.T) {
	var w EchoWatch
	require.Equal(t, second, w.Next(second), "nothing is awaited")
	require.False(t, w.Look(second, 0, false))
	w.Sent(1, second)
	w.Sent(2, second+60*ms)
	require.Equal(t, second+100*ms, w.Next(9*second), "the oldest is awaited")
	require.False(t, w.Look(second+99*ms, 0, false))
	require.True(t, w.Look(second+100*ms, 0, false))
	require.Equal(t, 9*second, w.Next(9*second), "one echo is awaited at a time")
	w.Sent(3, second+500*ms)
	require.Equal(t, second+600*ms, w.Next(9*second))
	require.False(t, w.Look(second+600*ms, 0, false), "no echo has come since the report")
	w.Echoed(3)
	w.Sent(4, 2*second)
	require.True(t, w.Look(2*second+100*ms, 0, false))
}

func TestEchoedWatchAwaitsTheNewestProbe(t *testing.T) {
	var w EchoWatch
	w.Sent(1, second)
	w.Sent(2, second+20*ms)
	w.Sent(3, second+40*ms)
	w.Echoed(1)
	require.Equal(t, second+140*ms, w.Next(9*second))
	w.Echoed(2) // of a probe before the awaited one
	require.Equal(t, second+140*ms, w.Next(9*second))
	w.Echoed(3)
	require.Equal(t, 9*second, w.Next(9*second))
}

func TestMoreProbesFollowOnlyWhenTheWriteIsSilentToo(t *testing.T) {
	const at = second + 100*ms // the echo is missing
	for name, row := range map[string]struct {
		writeSince int64
		failed     bool
		want       int
	}{
		"no write is outstanding":   {0, false, 0},
		"posted with the probe":     {second + 1, false, MoreProbes},
		"posted 50 ms ago":          {at - 50*ms, false, MoreProbes},
		"posted a moment ago":       {at - 50*ms + 1, false, 0},
		"its queue pair has failed": {0, true, MoreProbes},
	} {
		t.Run(name, func(t *testing.T) {
			var w EchoWatch
			w.Sent(1, second)
			require.True(t, w.Look(at, row.writeSince, row.failed))
			for i := range row.want {
				due := at + int64(i)*50*ms
				require.Equal(t, due, w.Next(9*second))
				require.False(t, w.TakeMore(due-1))
				require.True(t, w.TakeMore(due))
			}
			require.False(t, w.TakeMore(8*second))
			require.Equal(t, 9*second, w.Next(9*second))
		})
	}
}

func TestMoreProbesFollowOnceUntilAnEcho(t *testing.T) {
	var w EchoWatch
	w.Sent(1, second)
	require.True(t, w.Look(second+100*ms, 0, true))
	require.True(t, w.TakeMore(second+100*ms))
	w.Sent(2, second+100*ms)
	w.Echoed(2)
	require.False(t, w.TakeMore(8*second), "the echo ends them")
	for seq := uint64(3); seq < 5; seq++ {
		at := int64(seq) * second
		w.Sent(seq, at)
		w.Look(at+100*ms, 0, true)
		require.Equal(t, seq == 3, w.TakeMore(at+100*ms))
		for w.TakeMore(at + 900*ms) {
			at += 50 * ms
		}
	}
}

func TestExcuseGivesTheAwaitedEchoAllOfItsTime(t *testing.T) {
	var w EchoWatch
	w.Excuse(second)
	require.Equal(t, 9*second, w.Next(9*second), "nothing was awaited")
	w.Sent(1, second)
	w.Excuse(second + 400*ms)
	require.False(t, w.Look(second+400*ms, 0, true))
	require.Equal(t, second+500*ms, w.Next(9*second))
	require.True(t, w.Look(second+500*ms, 0, true))
}

func TestEveryVerdictOfSilenceBeginsInTime(t *testing.T) {
	for _, row := range []struct{ echo, write, state bool }{{}, {state: true}, {write: true}} {
		p := met(t)
		p.echo, p.write, p.state = row.echo, row.write, row.state
		missing := p.s.At + 500*ms + MissingAfter // of the next round
		p.run(60 * 1e9)
		require.Len(t, p.said, 1)
		_, since := p.j.Verdict()
		require.Less(t, since, missing+VerdictsWithin)
	}
}
