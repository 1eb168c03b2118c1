package verdict

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEchoIsMissingAfter100msAndReportedOnce(t *testing.T) {
	var w EchoWatch
	require.Equal(t, second, w.NextDeadline(second), "nothing is awaited")
	require.False(t, w.CheckMissing(second, 0, false))
	w.NoteSent(1, second)
	w.NoteSent(2, second+60*ms)
	require.Equal(t, second+100*ms, w.NextDeadline(9*second), "the oldest is awaited")
	require.False(t, w.CheckMissing(second+99*ms, 0, false))
	require.True(t, w.CheckMissing(second+100*ms, 0, false))
	require.Equal(t, 9*second, w.NextDeadline(9*second), "one echo is awaited at a time")
	w.NoteSent(3, second+500*ms)
	require.Equal(t, second+600*ms, w.NextDeadline(9*second))
	require.False(t, w.CheckMissing(second+600*ms, 0, false), "no echo has come since the report")
	w.NoteEcho(3)
	w.NoteSent(4, 2*second)
	require.True(t, w.CheckMissing(2*second+100*ms, 0, false))
}

func TestEchoedWatchAwaitsTheNewestProbe(t *testing.T) {
	var w EchoWatch
	w.NoteSent(1, second)
	w.NoteSent(2, second+20*ms)
	w.NoteSent(3, second+40*ms)
	w.NoteEcho(1)
	require.Equal(t, second+140*ms, w.NextDeadline(9*second))
	w.NoteEcho(2) // of a probe before the awaited one
	require.Equal(t, second+140*ms, w.NextDeadline(9*second))
	w.NoteEcho(3)
	require.Equal(t, 9*second, w.NextDeadline(9*second))
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
			w.NoteSent(1, second)
			require.True(t, w.CheckMissing(at, row.writeSince, row.failed))
			for i := range row.want {
				due := at + int64(i)*50*ms
				require.Equal(t, due, w.NextDeadline(9*second))
				require.False(t, w.TakeMoreProbe(due-1))
				require.True(t, w.TakeMoreProbe(due))
			}
			require.False(t, w.TakeMoreProbe(8*second))
			require.Equal(t, 9*second, w.NextDeadline(9*second))
		})
	}
}

func TestMoreProbesFollowOnceUntilAnEcho(t *testing.T) {
	var w EchoWatch
	w.NoteSent(1, second)
	require.True(t, w.CheckMissing(second+100*ms, 0, true))
	require.True(t, w.TakeMoreProbe(second+100*ms))
	w.NoteSent(2, second+100*ms)
	w.NoteEcho(2)
	require.False(t, w.TakeMoreProbe(8*second), "the echo ends them")
	for seq := uint64(3); seq < 5; seq++ {
		at := int64(seq) * second
		w.NoteSent(seq, at)
		w.CheckMissing(at+100*ms, 0, true)
		require.Equal(t, seq == 3, w.TakeMoreProbe(at+100*ms))
		for w.TakeMoreProbe(at + 900*ms) {
			at += 50 * ms
		}
	}
}

func TestExcuseGivesTheAwaitedEchoAllOfItsTime(t *testing.T) {
	var w EchoWatch
	w.RestartDeadline(second)
	require.Equal(t, 9*second, w.NextDeadline(9*second), "nothing was awaited")
	w.NoteSent(1, second)
	w.RestartDeadline(second + 400*ms)
	require.False(t, w.CheckMissing(second+400*ms, 0, true))
	require.Equal(t, second+500*ms, w.NextDeadline(9*second))
	require.True(t, w.CheckMissing(second+500*ms, 0, true))
}

func TestEveryVerdictOfSilenceBeginsInTime(t *testing.T) {
	for _, row := range []struct{ echo, write, state bool }{{}, {state: true}, {write: true}} {
		p := newOKPair(t)
		p.echoes, p.acknowledges, p.answersState = row.echo, row.write, row.state
		missing := p.s.At + 500*ms + MissingAfter // of the next round
		p.runFor(60 * 1e9)
		require.Len(t, p.verdicts, 1)
		_, since := p.j.Verdict()
		require.Less(t, since, missing+VerdictsWithin)
	}
}
